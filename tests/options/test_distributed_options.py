"""What the options of runs under `torchrun` promise."""

from __future__ import annotations

from tests.options.running import PPO, train
from tests.training.ranks import torchrun


def test_ddp_paras_check_interval() -> None:
    """One number is moved by a millionth on rank 1 in iteration 2; who looks every third iteration finds it then."""
    ended = torchrun("TrainerConfig.ddp_paras_check_interval=3", "ProbedPPO.fault='drift'")
    assert ended.codes == (1,)  # of torchrun; the ranks left with 7
    assert "after iteration 3, the parameter value_network." in ended.errors[0]
    assert "is one thing on rank 0 but another on rank 1" in ended.errors[0]
    assert "exitcode  : 7" in ended.errors[0]


def test_ddp_paras_check_interval_warns_without_torchrun() -> None:
    words = "TrainerConfig.ddp_paras_check_interval: no effect, since one process trains"
    assert words in train(PPO, ddp_paras_check_interval=1).console
    assert words not in train(PPO, root_dir="other").console
