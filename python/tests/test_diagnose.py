"""Diagnoses of files: what the program says of them, as a table."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from conftest import RECORDINGS

import tcptailor

OF_THEM = [
    "nagle-php.client.rec",
    "accept-queue-full.server.rec",
    "bufferbloat.client.rec",
    "apache-ab-keepalive.server.rec",
    "bulk-bbr-10mbit-20ms-1000p.client.rec",
]


def is_part_of(part, whole) -> bool:
    """Whether all that `part` says is in `whole`, which may say more."""
    if isinstance(part, dict):
        return all(name in whole and is_part_of(part[name], whole[name]) for name in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_part_of, part, whole))
    return part == whole


@pytest.mark.parametrize("name", OF_THEM)
def test_a_recording_is_judged_as_the_program_judges_it(document, name):
    expected = document("diagnose", RECORDINGS / name)
    table = tcptailor.diagnose(RECORDINGS / name, frame=False)
    assert is_part_of(table.documents, expected["flows"])
    for name in ("duration_s", "findings", "host_findings"):
        assert is_part_of(table.about[name], expected[name])


def test_a_row_says_what_limits_a_connection():
    frame = tcptailor.diagnose(RECORDINGS / "nagle-php.client.rec", frame=False)
    row = frame[0]
    assert (row["answer"], row["finding"], row["confidence"]) == (
        "nagle-delack-stall",
        True,
        "high",
    )
    assert "nodelay = on (local)" in row["changes"]


def test_a_capture_is_judged_whatever_its_compression(program, document, tmp_path: Path):
    capture = tmp_path / "packets.pcapng"
    program("lab", "run", "lan-wwr", "--engine", "virtual", "--pcap", capture)
    expected = document("diagnose", capture)
    table = tcptailor.diagnose(capture, frame=False)
    assert is_part_of(table.documents, expected["flows"])
    assert table.about["capture"] == expected["capture"]
    assert table[0]["answer"] == "nagle-delack-stall"
    assert table[0]["confidence"] == "medium", "packets do not show the option of a socket"
    packed = tmp_path / "packets.gz"
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    assert tcptailor.diagnose(packed, frame=False).documents == table.documents


def test_a_frame_has_a_row_for_each_connection():
    pytest.importorskip("pandas")
    path = RECORDINGS / "nagle-php.client.rec"
    frame = tcptailor.diagnose(path)
    assert frame["answer"].tolist() == tcptailor.diagnose(path, frame=False).column("answer")


def test_what_is_not_a_recording_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        tcptailor.diagnose(tmp_path / "none.rec")
    with pytest.raises(IsADirectoryError):
        tcptailor.diagnose(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    with pytest.raises(ValueError, match="neither a packet capture .* nor a recording"):
        tcptailor.diagnose(other)
    cut = tmp_path / "cut.rec"
    cut.write_bytes((RECORDINGS / "nagle-php.client.rec").read_bytes()[:5000])
    with pytest.raises(ValueError, match="cut.rec: "):
        tcptailor.diagnose(cut)
