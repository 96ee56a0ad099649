"""The loop that every training run is: zero_grad, forward, loss, backward, step, over batches from a DataLoader."""

import sapwood as torch
from sapwood import nn
from sapwood.utils.data import DataLoader, TensorDataset


def main() -> list[float]:
    torch.manual_seed(0)
    x = torch.randn(256, 4)
    truth = torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    y = x @ truth + 0.1 * torch.randn(256, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.MSELoss()
    losses = []
    model.train()
    for epoch in range(20):
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
        print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
