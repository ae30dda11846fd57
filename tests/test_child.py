"""Children say what happened to them, at once, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from alfish.child import Child, describe_exit
from alfish.errors import EnvironmentFault, WorkerLost


def echo(pipe: Connection) -> None:
    while True:
        pipe.send(pipe.recv())


def sleep_for_ever(pipe: Connection) -> None:
    pipe.send("asleep")
    time.sleep(1000)


def tell_parent_and_sleep(pipe: Connection, file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(1000)


def raise_fault(pipe: Connection) -> None:
    raise EnvironmentFault("environment 3 fell over")


def raise_unpicklable(pipe: Connection) -> None:
    class Local(Exception):
        pass

    raise Local(lambda: None)


def die(pipe: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def answer_then_die(pipe: Connection) -> None:
    pipe.send("last words")
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def running(child: Child) -> Iterator[Child]:
    try:
        yield child
    finally:
        child.kill()


def is_running(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


def test_messages_go_both_ways_in_order() -> None:
    with running(Child("the echo", echo)) as child:
        assert not child.poll()
        for number in range(3):
            child.send(number)
        assert [child.receive(10) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(TimeoutError, match=r"the echo did not answer within 0\.01 s"):
            child.receive(0.01)


def test_a_child_leaves_when_its_pipe_is_closed() -> None:
    child = Child("the echo", echo)
    child.send("hello")
    assert child.receive(10) == "hello"
    child.stop(grace=10)
    assert child._process.exitcode == 0
    child.stop()
    child.kill()


def test_errors_for_people_come_home_as_they_are() -> None:
    with running(Child("the worker", raise_fault)) as child, pytest.raises(EnvironmentFault, match="environment 3"):
        child.receive(10)


def test_other_errors_come_home_as_text_with_their_traceback() -> None:
    with running(Child("the worker", raise_unpicklable)) as child, pytest.raises(WorkerLost) as lost:
        child.receive(10)
    assert "the worker failed:" in str(lost.value)
    assert "in raise_unpicklable" in str(lost.value)
    assert "Local" in str(lost.value)


def test_a_killed_child_is_noticed_at_once_and_by_name() -> None:
    with running(Child("the evaluator", sleep_for_ever)) as child:
        assert child.receive(10) == "asleep"
        os.kill(child.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(WorkerLost, match=r"the evaluator \(process \d+\) was killed by signal 9 \(SIGKILL\)"):
            child.receive(30)
        assert time.monotonic() - began < 1
        assert child.poll()
        with pytest.raises(WorkerLost, match="the evaluator"):
            child.send("anybody there?")


def test_what_a_child_said_before_it_died_is_heard() -> None:
    with running(Child("the worker", answer_then_die)) as child:
        child._process.join(10)
        assert child.receive(10) == "last words"
        with pytest.raises(WorkerLost, match="SIGKILL"):
            child.receive(10)


def test_ctrl_c_and_sigterm_are_left_to_the_parent() -> None:
    with running(Child("the echo", echo)) as child:
        child.send(1)
        child.receive(10)
        os.kill(child.pid, signal.SIGINT)
        os.kill(child.pid, signal.SIGTERM)
        child.send(2)
        assert child.receive(10) == 2


def test_the_stack_shows_where_a_child_hangs() -> None:
    with running(Child("the worker", sleep_for_ever)) as child:
        child.receive(10)
        assert "in sleep_for_ever" in child.stack()
        assert "in sleep_for_ever" in child.stack()
    assert child.stack() == ""


def test_a_hanging_child_is_killed_when_its_grace_is_over() -> None:
    child = Child("the worker", sleep_for_ever)
    child.receive(10)
    child.stop(grace=0.1)
    assert child._process.exitcode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_in_the_middle_of_its_work_dies_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = (
        "import time\n"
        "from alfish.child import Child\n"
        "from tests.test_child import tell_parent_and_sleep\n"
        "if __name__ == '__main__':\n"
        f"    child = Child('the worker', tell_parent_and_sleep, ({str(file)!r},))\n"
        "    time.sleep(1000)\n"
    )
    path = tmp_path / "parent.py"
    path.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    parent = subprocess.Popen([sys.executable, str(path)], env=environment)
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    pid = int(file.read_text())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    assert wait_until_gone(pid, 3)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (None, "closed its pipe"),
        (3, "left with exit code 3"),
        (-15, "was killed by signal 15 (SIGTERM)"),
        (-9, "was killed by signal 9 (SIGKILL): out of memory?"),
    ],
)
def test_exit_codes_in_words(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


def test_a_child_may_have_children_that_die_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child = Child("the parent", have_child, (str(file),))
    with running(child):
        assert child.receive(timeout=60.0) == "born"
        pid = int(file.read_text())
    assert wait_until_gone(pid, 5.0)


def have_child(pipe: Connection, file: str) -> None:
    grandchild = Child("the child", sleep_for_ever)
    grandchild.receive(timeout=60.0)
    Path(file).write_text(str(grandchild.pid))
    pipe.send("born")
    time.sleep(1000)


def test_a_program_that_forgets_a_child_still_ends() -> None:
    script = (
        "from alfish.child import Child\nfrom tests.test_child import sleep_for_ever\n"
        "child = Child('forgotten', sleep_for_ever)\nchild.receive(60.0)\nprint('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_who_lives_is_known() -> None:
    child = Child("asleep", sleep_for_ever)
    with running(child):
        assert child in Child.living()
    assert child not in Child.living()


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_do_not_end_a_child_that_is_still_starting(kind: signal.Signals) -> None:
    child = Child("echo", echo)
    with running(child):
        os.kill(child.pid, kind)
        child.send("here")
        assert child.receive(timeout=60.0) == "here"
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
