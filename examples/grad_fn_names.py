"""What recorded each tensor: the grad_fn of cat, matmul, add, addmm, div and relu, and what each node saved."""

import sapwood as torch


def main() -> dict[str, str]:
    a = torch.rand(2, 2, requires_grad=True)
    b = torch.rand(2, 2, requires_grad=True)
    made = {
        "torch.cat([a, b])": torch.cat([a, b]),
        "torch.matmul(a, b)": torch.matmul(a, b),
        "torch.add(a, b)": torch.add(a, b),
        "torch.addmm(a, a, b)": torch.addmm(a, a, b),
        "torch.div(a, b)": torch.div(a, b),
        "torch.relu(a)": torch.relu(a),
    }
    names = {}
    for text, t in made.items():
        node = t.grad_fn
        inputs = [n.name().split("::")[-1] for n, _ in node.next_functions if n is not None]
        saved = sorted({n[7:] for n in dir(node) if n.startswith("_saved_")})
        print(f"{text:22s} {node.name():16s} from {inputs}, saved {saved}")
        names[text] = node.name()
    return names


if __name__ == "__main__":
    main()
