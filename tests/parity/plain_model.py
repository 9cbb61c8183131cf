"""Pieces of a transformer in plain numpy, from weights by Tessera's names and in its layouts."""

import numpy as np


def linear(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(x, weights, name, eps):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    normed = centered / np.sqrt(variance + eps)
    return normed * weights[name + ".weight"] + weights[name + ".bias"]


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(x, weights, name, heads, hidden):
    """Attention over x (B, T, C); `hidden` broadcasts to (B, H, T, T) and is true where a key is hidden."""
    B, T, C = x.shape

    def project(j):  # (B, H, T, D): head h has the columns from h * D on
        y = x @ weights[name + ".qkv.weight"][j].T + weights[name + ".qkv.bias"][j]
        return y.reshape(B, T, heads, C // heads).swapaxes(1, 2)

    q, k, v = project(0), project(1), project(2)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(C // heads)  # (B, H, T, T)
    attended = softmax(np.where(hidden, -np.inf, scores)) @ v
    return linear(attended.swapaxes(1, 2).reshape(B, T, C), weights, name + ".output")


def cross_entropy(logits, targets):
    """The mean over the rows of logits (..., V) whose target is not negative."""
    counted = targets >= 0
    return -np.log(softmax(logits[counted])[np.arange(counted.sum()), targets[counted]]).mean()


def confirm_gradients(loss_of, weights, grads, seed):
    """Fails unless the gradients of `loss_of(weights)` agree with its central differences."""
    random = np.random.RandomState(seed)
    step = 1e-5  # error: step² times the third derivative, and 1e-16 / step of rounding
    for name, grad in grads.items():
        direction = random.standard_normal(grad.shape)
        ahead = loss_of(weights | {name: weights[name] + step * direction})
        behind = loss_of(weights | {name: weights[name] - step * direction})
        np.testing.assert_allclose(
            (grad * direction).sum(),
            (ahead - behind) / (2 * step),
            rtol=1e-6,
            atol=1e-8,
            err_msg=name,
        )
