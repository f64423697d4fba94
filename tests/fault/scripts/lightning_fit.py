"""A training script as its author would write it for torchrun: Lightning's Trainer."""
import hashlib
import os

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1)
inputs = torch.randn(256, 8)
module = Module()
trainer = lightning.Trainer(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_epochs=2, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False)
trainer.fit(module, DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16))
weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()
print(f"rank {trainer.global_rank} of {trainer.world_size}: {weights}", flush=True)
