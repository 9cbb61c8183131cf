"""The ten updates of every parity test: clipping, then AdamW."""

import torch

STEPS, LR, BETAS, EPS, WEIGHT_DECAY, GRAD_CLIP = 10, 1e-2, (0.9, 0.95), 1e-8, 0.1, 1.0


def train(model, loss_of):
    """Makes STEPS updates with `loss_of(model)`; returns the loss and the unclipped gradient norm before each."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]  # c_attn.bias too: (3C) here
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": WEIGHT_DECAY},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=LR,
        betas=BETAS,
        eps=EPS,
    )
    losses, grad_norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        optimizer.step()
        losses.append(loss.item())
        grad_norms.append(norm.item())
    return losses, grad_norms
