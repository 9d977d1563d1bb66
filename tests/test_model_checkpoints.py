"""Questions about what a program writes to a checkpoint."""

from __future__ import annotations

from asking import ask


def test_a_container_that_holds_itself_is_asked_once() -> None:
    code = """
    history = []
    for epoch in range(3):
        metrics = {"loss": total_of(epoch)}
        metrics["history"] = history
        history.append(metrics)
        torch.save({"model": net.state_dict(), "metrics": metrics}, "last.pt")
    """
    (keys,) = ask(code, lambda ctx: [{part.key for part in saved.parts} for saved in ctx.checkpoints.saved])
    assert "model" in keys
    assert not any("history.history" in key for key in keys)
