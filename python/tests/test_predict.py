"""Predictions: those of the program, as a table."""

from __future__ import annotations

from pathlib import Path

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


def test_a_capture_predicts_what_its_packets_show(program, document, tmp_path: Path):
    capture = tmp_path / "packets.pcapng"
    program("lab", "run", "lan-wwr", "--engine", "virtual", "--pcap", capture)
    expected = document("predict", capture, "--try", "sndbuf=1MiB")
    table = tcptailor.predict(capture, {"sndbuf": "1MiB"}, frame=False)
    assert [row["change"] for row in table] == [
        row["change"] for row in expected["predictions"]
    ]
    rows = {row["change"]: row for row in table}
    # The scenario's cell with that option has a median of 1.02 ms.
    nodelay = rows["nodelay = on"]
    assert nodelay["objective"] == "response"
    assert nodelay["low"] <= 1020 <= nodelay["high"]
    assert nodelay["value"] == pytest.approx(1020, rel=0.05)
    buffer = rows["sndbuf = 1MiB"]
    assert buffer["value"] is None
    assert "packets do not show how sndbuf is set" in buffer["text"]
    assert "tcptailor record" in buffer["text"]


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="nodeley"):
        tcptailor.predict(STALL, {"nodeley": True})
    with pytest.raises(ValueError, match="nodelay = maybe: "):
        tcptailor.predict(STALL, {"nodelay": "maybe"})
    with pytest.raises(FileNotFoundError):
        tcptailor.predict("none.rec")
    with pytest.raises(ValueError, match="neither a packet capture .* nor a recording"):
        tcptailor.predict(__file__)


def test_what_cannot_be_known_is_said():
    with pytest.raises(tcptailor.CannotPredict, match="too little traffic"):
        tcptailor.predict(RECORDINGS / "beanstalkd-reserve.client.rec")
