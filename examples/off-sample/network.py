"""A small convolutional network for small images: trained, and exported to ONNX and TorchScript. Needs PyTorch."""

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

SIDE = 64  # pixels that the network takes


def build(channels: int, classes: int, width: int = 8) -> nn.Module:
    """Four halvings of the image, then one layer that sees where things are."""
    layers: list[nn.Module] = []
    for step in range(4):
        wider = width * 2 ** min(step, 2)
        layers += [nn.Conv2d(channels, wider, 3, stride=2, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        channels = wider
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(channels * (SIDE // 16) ** 2, classes)
    )


def train(network: nn.Module, images: Tensor, classes: Tensor, *, epochs: int, batch: int = 32) -> None:
    """Adam, with one rise and fall of the learning rate. Left and right are the same to it."""
    torch.set_num_threads(1)  # So small a network gains little from more, and loses much on a busy machine.
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-2)
    steps = epochs * -(-len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    network.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(images)).split(batch):
            seen = images[rows]
            seen = torch.where(torch.rand(len(rows), 1, 1, 1) < 0.5, seen.flip(3), seen)
            loss = nn.functional.cross_entropy(network(seen), classes[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch}: loss {total / len(images):.4f}", flush=True)
    network.eval()


def accuracy(network: nn.Module, images: Tensor, classes: Tensor) -> float:
    """The share of images that it names rightly."""
    with torch.no_grad():
        named = torch.cat([network(part).argmax(1) for part in images.split(256)])
    return float((named == classes).float().mean())


def export(network: nn.Module, example: Tensor, folder: Path, name: str) -> tuple[Path, Path]:
    """`NAME.onnx` and `NAME.pt`; both take batches of any size."""
    onnx, script = folder / f"{name}.onnx", folder / f"{name}.pt"
    batches = {"images": {0: "batch"}, "scores": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # The ways that replace them need more packages.
        torch.onnx.export(
            network,
            (example,),
            str(onnx),
            input_names=["images"],
            output_names=["scores"],
            dynamic_axes=batches,
            dynamo=False,
        )
        torch.jit.trace(network, example).save(str(script))
    return onnx, script
