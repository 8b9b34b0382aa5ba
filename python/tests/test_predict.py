"""Predictions: those of the program, as a table."""

from __future__ import annotations

import pytest
from conftest import RECORDINGS

import tcptailor

STALL = RECORDINGS / "nagle-php.client.rec"


def test_predictions_are_those_of_the_program(document):
    words = ["--try", "nodelay=on", "--try", "congestion=reno", "--try-far", "route.quickack=on"]
    expected = document("predict", STALL, *words)
    table = tcptailor.predict(
        STALL,
        {"nodelay": True, "congestion": ["reno"]},
        far={"route.quickack": True},
        frame=False,
    )
    assert len(table) == len(expected["predictions"]) > 0
    for document_, told in zip(table.documents, expected["predictions"]):
        assert {name: document_[name] for name in told} == told
    for name, told in table.about["twin"].items():
        assert expected["twin"][name] == told
    best = table[0]
    assert best["change"] == "nodelay = on"
    assert best["low"] <= best["value"] <= best["high"]
    assert best["gain"] > 10


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="nodeley"):
        tcptailor.predict(STALL, {"nodeley": True})
    with pytest.raises(ValueError, match="nodelay = maybe: "):
        tcptailor.predict(STALL, {"nodelay": "maybe"})
    with pytest.raises(FileNotFoundError):
        tcptailor.predict("none.rec")


def test_what_cannot_be_known_is_said():
    with pytest.raises(tcptailor.CannotPredict, match="too little traffic"):
        tcptailor.predict(RECORDINGS / "beanstalkd-reserve.client.rec")
