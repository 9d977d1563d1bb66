"""What writes images, which nobody looks at here."""


def save_image(tensor, fp, **options):
    with open(fp, "wb") as file:
        file.write(tensor.detach().cpu().numpy().tobytes())


def make_grid(tensor, **options):
    return tensor[0]
