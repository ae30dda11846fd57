"""How sure an ensemble of classifiers is, and whether it is right to be.

`probabilities` are `[M, N, C]`: M members, N examples, C classes. Entropies are in nats.
"""

from __future__ import annotations

import torch


def entropy(probabilities: torch.Tensor) -> torch.Tensor:
    """`[...]`, of distributions `[..., C]`: 0 when sure, log C when every class is as likely."""
    return torch.special.entr(probabilities).sum(-1)


def predictive_entropy(probabilities: torch.Tensor) -> torch.Tensor:
    """`[N]`: the entropy of what the members say on average. Noise in the data and ignorance both raise it."""
    return entropy(probabilities.mean(0))


def mutual_information(probabilities: torch.Tensor) -> torch.Tensor:
    """`[N]`: how much the members disagree, 0 or more. Ignorance raises it, noise that all members see does not.

    The entropy of the mean less the mean of the entropies (Houlsby et al. 2011).
    """
    return (predictive_entropy(probabilities) - entropy(probabilities).mean(0)).clamp(min=0.0)


def calibration_error(confidence: torch.Tensor, is_right: torch.Tensor, num_bins: int = 10) -> torch.Tensor:
    """`[]`: by how much confidence and accuracy differ on average, over bins of equal confidence (Guo et al. 2017).

    Args:
        confidence: `[N]`, the probability of the predicted class.
        is_right: bool `[N]`, whether the prediction was right.
        num_bins: bins of equal width between 0 and 1.
    """
    bins = (confidence * num_bins).long().clamp(max=num_bins - 1)
    surplus = torch.zeros(num_bins, dtype=confidence.dtype, device=confidence.device)
    surplus.index_add_(0, bins, confidence - is_right.to(confidence.dtype))
    return surplus.abs().sum() / len(confidence)


def separation(usual: torch.Tensor, unusual: torch.Tensor) -> torch.Tensor:
    """`[]`: the chance that a random unusual value is above a random usual one (the area under the ROC curve).

    Equal values count half: 0.5 tells nothing apart, 1 everything.
    """
    usual = usual.sort().values
    below = torch.searchsorted(usual, unusual, right=False)
    not_above = torch.searchsorted(usual, unusual, right=True)
    return (below + not_above).double().mean() / (2 * len(usual))
