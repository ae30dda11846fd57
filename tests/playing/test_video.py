from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from alfish.errors import ConfigError, StorageFault
from alfish.playing.video import open_recorder

COLORS = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (200, 200, 30)]


def film(name: str, height: int = 64, width: int = 96, fps: float = 10.0) -> Path:
    with open_recorder(Path(name), fps) as recorder:
        for color in COLORS:
            recorder.add(np.full((height, width, 3), color, np.uint8))
    assert recorder.num_frames == len(COLORS)
    return Path(name)


@pytest.mark.parametrize("size", [(64, 96), (63, 95)])
def test_an_mp4_shows_the_frames_in_order(size):
    with av.open(str(film("a.mp4", *size))) as opened:
        stream = opened.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt, stream.average_rate) == ("h264", "yuv420p", 10)
        images = [frame.to_ndarray(format="rgb24") for frame in opened.decode(video=0)]
    assert [image.shape for image in images] == [(64, 96, 3)] * len(COLORS)
    for image, color in zip(images, COLORS, strict=True):
        assert np.abs(image.reshape(-1, 3).mean(0) - color).max() < 8


def test_a_gif_shows_the_frames_in_order():
    with Image.open(film("a.gif")) as opened:
        assert (opened.n_frames, opened.size) == (len(COLORS), (96, 64))
        assert opened.info["duration"] == 100
        assert opened.info["loop"] == 0  # for ever
        for number, color in enumerate(COLORS):
            opened.seek(number)
            assert np.abs(np.asarray(opened.convert("RGB"))[0, 0].astype(int) - color).max() < 8


def test_the_ending_decides_in_any_case():
    assert film("A.GIF").read_bytes()[:3] == b"GIF"


def test_a_film_that_is_broken_off_is_whole():
    recorder = open_recorder(Path("a.mp4"), 10)
    with suppress(KeyboardInterrupt), recorder:
        recorder.add(np.zeros((64, 96, 3), np.uint8))
        raise KeyboardInterrupt
    with av.open("a.mp4") as opened:
        assert len(list(opened.decode(video=0))) == 1


def test_without_a_frame_there_is_no_file():
    for name in ("a.mp4", "a.gif"):
        with open_recorder(Path(name), 10):
            pass
        assert not Path(name).exists()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a", ConfigError, "ends in .mp4 or .gif"),
        ("a.mp44", ConfigError, r"Did you mean a\.mp4\?"),
        ("nowhere/a.mp4", StorageFault, "the folder nowhere does not exist"),
        ("folder.mp4", StorageFault, "it is a folder"),
    ],
)
def test_names_that_will_not_do(name, kind, message):
    Path("folder.mp4").mkdir()
    with pytest.raises(kind, match=message):
        open_recorder(Path(name), 10)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_without_permission_is_told(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StorageFault, match="not permitted"):
        open_recorder(Path("a.mp4"), 10)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
@pytest.mark.parametrize("num_frames", [1, 100])
def test_a_full_disk_is_told(name, num_frames):
    Path(name).symlink_to("/dev/full")
    with pytest.raises(StorageFault, match=f"cannot write {name}: No space left on device"):
        record_noise(name, num_frames)
    assert not Path(name).is_symlink()  # nothing useless is left behind


def record_noise(name: str, num_frames: int) -> None:
    noise = np.random.default_rng(0)
    with open_recorder(Path(name), 10) as recorder:
        for _ in range(num_frames):
            recorder.add(noise.integers(0, 256, (64, 96, 3), dtype=np.uint8))
