"""Versions of libraries that a project requires, as its requirements, notes, scripts and environments tell."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dllint.config.notes import told_by_text
from dllint.config.versions import find_limits, find_versions


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return tmp_path


class TestVersions:
    def write(self, root: Path, **files: str) -> None:
        for name, text in files.items():
            path = root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @pytest.mark.parametrize(
        ("requirement", "version"),
        [
            ("torch==2.1.0+cu118", "2.1.0"),
            ("torch>=2.1,<3", "2.1"),
            ("torch <3, >=2.2", "2.2"),
            ("Torch[extra] ~= 1.13 ; python_version < '3.12'", "1.13"),
            ("torch (>=2.0)  # why", "2.0"),
            ("torch==2.*", "2"),
            ("torch<2", None),
            ("torch", None),
            ("torchmetrics>=1", None),
            ("-r other.txt", None),
            ("torch @ https://example.com/torch-2.1.whl", None),
            ("torch @ https://example.com/whl/cu118/torch-2.1.0%2Bcu118-cp310-cp310-linux_x86_64.whl", "2.1.0"),
        ],
    )
    def test_a_requirement_gives_its_lower_bound(self, project: Path, requirement: str, version: str | None) -> None:
        self.write(project, requirements_txt=f"numpy\n{requirement}\n")
        assert find_versions(project, {}).get("torch") == version

    @pytest.mark.parametrize(
        ("requirement", "limit"),
        [
            ("numpy==1.23.5", "1.23.5.1"),
            ("numpy==1.19", "1.19.0.1"),
            ("numpy<=1.26.4", "1.26.4.1"),
            ("numpy>=1.20,<2", "2"),
            ("numpy~=1.26.0", "1.27"),
            ("numpy~=1.26", "2"),
            ("numpy==1.26.*", "1.27"),
            ("numpy>=1.20", None),
            ("numpy", None),
            ("numpy @ https://example.com/numpy-1.26.whl", None),
            ("numpy @ https://example.com/numpy-1.26.0-cp310-cp310-win_amd64.whl ; sys_platform", "1.26.0.1"),
            ("numpy=1.19.2=py36hadc3359_0", "1.19.3"),
        ],
    )
    def test_a_requirement_gives_its_upper_bound(self, project: Path, requirement: str, limit: str | None) -> None:
        self.write(project, requirements_txt=f"torch==2.1\n{requirement}\n")
        assert find_limits(project, {}).get("numpy") == limit

    @pytest.mark.parametrize("name", ["environment.yml", "conda.yaml", "Project.yml"])
    def test_an_environment_of_conda_is_known_by_what_is_in_it(self, project: Path, name: str) -> None:
        (project / name).write_text(
            "name: x\ndependencies:\n  - python=3.6.12=h\n  - pytorch=1.7.1=py37\n  - pip:\n    - numpy==1.18.5\n"
        )
        (project / "train.yaml").write_text("model:\n  - transformers==4.2.1\n")
        assert find_limits(project, {}) == {"numpy": "1.18.5.1", "python": "3.6.13", "torch": "1.7.2"}

    @pytest.mark.parametrize(
        ("image", "limit"),
        [
            ("pytorch/pytorch:1.7.1-cuda11.0-cudnn8-runtime", "1.7.1.1"),
            ("nvcr.io/nvidia/pytorch:22.02-py3", "1.14"),
            ("nvidia/cuda:11.0", None),
            ("nvcr.io/nvidia/pytorch:77.01", None),
        ],
    )
    def test_the_image_of_a_dockerfile_has_a_torch(self, project: Path, image: str, limit: str | None) -> None:
        (project / "Dockerfile").write_text(f"FROM {image}\nRUN pip install timm\n")
        assert find_limits(project, {}).get("torch") == limit

    @pytest.mark.parametrize(
        ("tag", "torch", "python"),
        [
            ("22.02", "1.14", "3.9"),
            ("23.04", "2.3", "3.9"),
            ("23.05", "2.3", "3.11"),
            ("23.10", "2.3", "3.11"),
            ("24.10", "2.7", "3.11"),
            ("24.11", "2.7", "3.13"),
        ],
    )
    @pytest.mark.parametrize("name", ["requirements.txt", "README.md", "job.yaml", "run.sh", "Dockerfile"])
    def test_a_container_that_is_named_anywhere_has_a_torch_and_a_python(
        self, project: Path, name: str, tag: str, torch: str, python: str
    ) -> None:
        begins = "FROM" if name == "Dockerfile" else "# Base image:"
        (project / name).write_text(f"{begins} nvcr.io/nvidia/pytorch:{tag}-py3\n")
        limits = find_limits(project, {})
        assert (limits.get("torch"), limits.get("python")) == (torch, python)

    def test_the_image_of_a_dockerfile_may_have_arguments(self, project: Path) -> None:
        text = 'ARG TORCH="1.5.1"\nARG CUDA="10.1"\nFROM pytorch/pytorch:${TORCH}-cuda${CUDA}-devel\n'
        (project / "Dockerfile").write_text(text)
        assert find_limits(project, {}) == {"python": "3.8", "torch": "1.5.1.1"}
        (project / "Dockerfile").unlink()
        (project / "docker").mkdir()
        text = "ARG PY=3.7\nRUN /opt/conda/bin/conda install -y python=$PY scipy\n"
        (project / "docker" / "dockerfile").write_text(text)
        assert find_limits(project, {}) == {"python": "3.8"}

    def test_setup_and_environments(self, project: Path) -> None:
        self.write(project, setup_py="from setuptools import setup\nsetup(install_requires=['numpy<1.24', 'torch'])\n")
        pinned = "dependencies:\n  - pytorch=1.7.1=py3.8_cuda\n  - pip:\n    - transformers==4.2.1\n    - timm>=0.4\n"
        (project / "environment.yml").write_text(pinned)
        assert find_versions(project, {}) == {"torch": "1.7.1", "transformers": "4.2.1", "timm": "0.4"}
        assert find_limits(project, {}) == {"numpy": "1.24", "torch": "1.7.2", "transformers": "4.2.1.1"}
        assert find_limits(project, {"Numpy": "1.20"})["numpy"] == "1.20.0.1"

    @pytest.mark.parametrize(
        "text",
        [
            "needed = ['numpy<1.24']\nsetup(install_requires=needed)\n",
            "BASE: list[str] = ['numpy<1.24']\nsetup(install_requires=BASE + ['timm'])\n",
            "BASE = ('numpy<1.24',)\nsetup(install_requires=[*BASE, 'timm'])\n",
            "needed = ['timm']\nneeded += ['numpy<1.24']\nsetup(install_requires=needed)\n",
            "told = {'install_requires': ['numpy<1.24']}\nsetup(**told)\n",
        ],
    )
    def test_the_list_of_setup_may_have_a_name(self, project: Path, text: str) -> None:
        self.write(project, setup_py=f"from setuptools import setup\n{text}")
        assert find_limits(project, {}) == {"numpy": "1.24"}

    @pytest.mark.parametrize(
        "text", ["setup(install_requires=names)\n", "needed = needed\nsetup(install_requires=needed)\n"]
    )
    def test_a_list_of_setup_that_nothing_tells(self, project: Path, text: str) -> None:
        self.write(project, setup_py=text)
        assert find_limits(project, {}) == {}

    def test_notes_tell_of_another_way_to_run_a_project_than_its_image(self, project: Path) -> None:
        (project / "Dockerfile").write_text("FROM python:3.10-slim\nRUN pip install numpy==1.24\n")
        (project / "README.md").write_text("conda create -n x python=3.7\nRuns with numpy 1.20\n")
        assert find_limits(project, {}) == {"python": "3.8", "numpy": "1.25"}

    def test_an_environment_of_conda_may_stand_in_requirements(self, project: Path) -> None:
        self.write(project, requirements_txt="# platform: win-64\npytorch=1.7.0=py3.6_cuda110_cudnn8_0\n")
        assert find_versions(project, {}) == {"torch": "1.7.0"}
        assert find_limits(project, {}) == {"torch": "1.7.1"}

    @pytest.mark.parametrize("folder", ["src", "apps/train"])
    def test_files_for_installation_in_folders_tell_a_limit(self, project: Path, folder: str) -> None:
        (project / folder).mkdir(parents=True)
        (project / folder / "requirements.txt").write_text("transformers==3.0.0\n")
        assert find_limits(project, {}) == {"transformers": "3.0.0.1"}

    def test_of_several_sources_the_strictest_limit_counts(self, project: Path) -> None:
        self.write(project, pyproject_toml="[project]\ndependencies = ['torch', 'numpy<3', 'transformers>=4.50']\n")
        (project / "README.md").write_text("Runs with transformers 4.20.\n")
        self.write(project, requirements_txt="torch==1.13.0\nnumpy<2\ntransformers\n")
        (project / "requirements-dev.txt").write_text("torch\n")
        assert find_limits(project, {}) == {"numpy": "2", "torch": "1.13.0.1"}  # 4.20 is below what is required
        assert find_limits(project, {"torch": "2.1"})["torch"] == "2.1.0.1"

    def test_what_a_command_installs_is_fixed(self) -> None:
        text = "- python >= 3.7\n- torch >= 1.8\n\n```\nconda create -n net python=3.7 -y\npip install torch\n```\n"
        assert set(told_by_text(text)) == {("torch", ">=1.8"), ("python", "==3.7"), ("python", "=3.7")}

    @pytest.mark.parametrize(
        "text", ["pip " * 20_000, f"python{' ' * 100_000}x", f"torch{'*' * 100_000}x", "a" * 100_000]
    )
    def test_notes_may_be_anything(self, text: str) -> None:
        begin = time.process_time()
        assert not list(told_by_text(text))
        assert time.process_time() - begin < 2

    def test_requirements_may_be_written_by_powershell(self, project: Path) -> None:
        (project / "requirements.txt").write_text("numpy==1.26.4\n", encoding="utf-16")
        assert find_limits(project, {}) == {"numpy": "1.26.4.1"}

    def test_the_python_of_a_readme_is_a_limit(self, project: Path) -> None:
        for text, limit in (
            ("- Python 3.7", "3.7.0.1"),
            ("Tested under Python 3.8.0", "3.8.0.1"),
            ("Python 3.8+", None),
        ):
            (project / "README.md").write_text(text + "\n")
            assert find_limits(project, {}).get("python") == limit

    @pytest.mark.parametrize(
        ("file", "text", "limits"),
        [
            ("Dockerfile", "RUN pip install torch==1.4.0 tqdm\n", {"torch": "1.4.1"}),
            ("run.sh", "python3.6 train.py --lr 0.1\n", {"python": "3.7"}),
            ("jobs/train.sh", "module load python/3.7.4\n", {"python": "3.7.5"}),
            ("run.sh", "CUDA_VISIBLE_DEVICES=0 python2 -u train.py\n", {"python": "2.8"}),
            ("run.sh", "python2 train.py\npython3 test.py\n", {}),
            ("run.sh", "# python2 train.py\n", {}),
            ("requirements.txt", "spacy<=1.9\n", {"spacy": "1.9.0.1"}),
            ("run.sh", "#!/bin/bash\n#torch1.0.1, cuda 9.0\npython x.py\n", {"torch": "1.0.1.1", "cuda": "9.0.0.1"}),
            ("run.sh", "python train.py --name pytorch1.0.1  # learning rate 0.1\n", {}),
            ("run.sh", "source activate pytorch_p36\n", {"python": "3.7"}),
            ("run.sh", "source ../python3.7/bin/activate\n", {"python": "3.8"}),
            ("README.md", "    conda activate py37-torch\n", {"python": "3.8"}),
            ("README.md", "    conda activate happy37\n", {}),
            (".travis.yml", "python:\n  - 3.6\ninstall: pip install torch==1.0\n", {"python": "3.7", "torch": "1.1"}),
            (".github/workflows/test.yml", "        python-version: '3.8'\n", {"python": "3.9"}),
            ("runtime.txt", "python-3.6.9\n", {"python": "3.6.10"}),
            ("run.sh", "python train.py --model torch-1 --epochs 3.5\n", {}),
            (
                "hpc/job.def",
                "Bootstrap: docker\nFrom: pytorch/pytorch:2.4.1-cuda11.8-cudnn9-runtime\n",
                {"torch": "2.4.1.1"},
            ),
            ("code/image.def", "%post\n    pip install torch==2.4.1+cu118\n", {"torch": "2.4.2"}),
            ("code/requirements.txt", "# torch==2.4.1+cu118\n# since 1.0 numpy is not needed\n", {"torch": "2.4.1.1"}),
            ("src/README.md", "transformers==4.16.2\n", {"transformers": "4.16.2.1"}),
            ("requirements.txt", "numpy @ file:///home/conda/feedstock_root/numpy_1660/work\n", {"numpy": "0"}),
            ("README.md", "- [NumPy](https://numpy.org/) version 1.23.5\n", {"numpy": "1.23.5.1"}),
            ("README.md", "* [PyTorch](https://pytorch.org) version 2.0.0+cu117\n", {"torch": "2.0.0.1"}),
            (
                "README.md",
                "[PyTorch][torch] ver. 1.8, `numpy` (1.19), Python < 3.9\n",
                {"numpy": "1.19.0.1", "python": "3.9", "torch": "1.8.0.1"},
            ),
            ("README.md", "[PyTorch](https://pytorch.org) version >= 1.10\n", {}),
            ("README.md", "[PyTorch](https://pytorch.org), in 2.1 of [the notes](notes.md)\n", {}),
            ("README.md", "sentence-transformers==2.2.0, vit-pytorch 0.20.3, Table 1.2 of NumPy\n", {}),
            (
                "README.md",
                "-Python 3.7--3.9\n* PyTorch1.6~1.8, numpy 1.19 to 1.21\n",
                {"numpy": "1.21.0.1", "python": "3.9.0.1", "torch": "1.8.0.1"},
            ),
            ("README.md", "pip install vit-pytorch==0.20.3 numpy\n", {}),
            (
                "README.md",
                "- albumentations: 0.1.8\n- [gensim 3.2](https://radimrehurek.com)\n",
                {"albumentations": "0.1.8.1", "gensim": "3.2.0.1"},
            ),
            ("INSTALLING.md", "    pip install datasets==1.5.0 'numpy<2'\n", {"datasets": "1.5.0.1", "numpy": "2"}),
            ("docs/setup.md", "conda create --name x \\\n  python=3.6\n", {"python": "3.7"}),
            ("a/b/notes.md", "conda install pytorch==1.6.0 -c pytorch\n", {"torch": "1.6.0.1"}),
            ("a/b/c/notes.md", "conda install pytorch==1.6.0 -c pytorch\n", {}),
            ("CHANGELOG.md", "Runs with PyTorch 1.4 by now.\n", {}),
            ("third_party/x/notes.md", "conda install pytorch==1.6.0\n", {}),
            ("external/README.md", "transformers==4.16.2\n", {}),
            ("Pipfile", '[requires]\npython_version = "3.6"\n', {"python": "3.7"}),
            (".python-version", "3.7.9\n", {"python": "3.7.9.1"}),
            (".python-version", "thesis-3.8\n", {"python": "3.9"}),
            (".python-version", "thesis\n", {}),
            (".idea/misc.xml", '<component project-jdk-name="Python 3.7 (thesis)" />\n', {"python": "3.8"}),
            (".idea/misc.xml", '<component project-jdk-name="Remote Python 2.7.14 (ssh://x)" />\n', {"python": "2.8"}),
            (".idea/misc.xml", '<component project-jdk-name="thesis-37" />\n', {}),
            ("tox.ini", "[tox]\nenvlist = py36, py{37,38}-torch\n", {"python": "3.9"}),
            ("setup.py", "setup(name='x', python_requires='>=3.6,<3.8')\n", {"python": "3.8"}),
            ("setup.py", "setup(name='x', python_requires='>=3.6')\n", {}),
            (
                "setup.cfg",
                "[options]\npython_requires = ==3.7.*\ninstall_requires =\n    torch==1.7.1\n    numpy>=1.19\n",
                {"python": "3.8", "torch": "1.7.1.1"},
            ),
            (".github/workflows/test.yml", "        python-version: [3.6, '3.7']\n", {"python": "3.8"}),
            ("azure-pipelines.yml", "  python_versions: ['3.10', '3.11']\n", {"python": "3.12"}),
            (".gitlab-ci.yml", "image: python:3.7-slim\n", {"python": "3.8"}),
            (
                "Pipfile",
                '[packages]\ntorch = "==1.4.0"\nnumpy = "*"\nscipy = {version = "<1.6"}\n',
                {"torch": "1.4.0.1", "scipy": "1.6"},
            ),
            ("cog.yaml", 'build:\n  python_packages:\n    - "torch==1.8.1"\n', {"torch": "1.8.1.1"}),
            ("jobs/train.slurm", "module load python/3.6\n", {"python": "3.7"}),
            ("Dockerfile", "FROM nvidia/cuda:10.1-cudnn7-devel\n", {"cuda": "10.2"}),
            ("Dockerfile", "FROM tensorflow/tensorflow:1.14.0-gpu-py3\n", {"tensorflow": "1.15"}),
            ("env.yml", "dependencies:\n  - cudatoolkit=10.1\n", {"cuda": "10.2"}),
            (
                "README.md",
                "- PyTorch Lightning 1.2.0\n- CUDA Toolkit 10.1\n",
                {"cuda": "10.1.0.1", "pytorch-lightning": "1.2.0.1"},
            ),
            (
                "README.md",
                "Tensorflow-GPU 1.14, sklearn (0.21.2)\n",
                {"scikit-learn": "0.21.2.1", "tensorflow": "1.14.0.1"},
            ),
            (
                "README.md",
                "# Packages\n- skimage 0.16.2\n- PIL 6.2.1\n",
                {"pillow": "6.2.1.1", "scikit-image": "0.16.2.1"},
            ),
            (
                "README.md",
                "scikit image v0.17, OpenCV 4.2.0\n",
                {"opencv-python": "4.2.0.1", "scikit-image": "0.17.0.1"},
            ),
            ("README.md", "needs opencv >= 4.1 and skimage\n", {}),
            ("requirements.txt", "opencv-contrib-python-headless==4.5.1.48\n", {"opencv-python": "4.5.1.48.1"}),
            ("README.md", "CUDA 10.1 or later, scikit-learn >= 0.21, mxnet 1.9\n", {}),
            ("requirements.in", "lightning==2.2.4\n", {"lightning": "2.2.4.1"}),
            ("src/requirements.in", "numpy<2\n", {"numpy": "2"}),
            (
                "Dockerfile",
                "FROM nvidia/cuda:11.7.1-base-ubuntu20.04\nRUN apt-get install python3-pip\n",
                {"cuda": "11.8", "python": "3.9"},
            ),
            ("Dockerfile", "FROM ubuntu:20.04\nRUN wget Miniconda3.sh && conda create -n x\n", {}),
            ("wandb/run-1/files/requirements.txt", "transformers==4.20.0.dev0\n", {"transformers": "4.20.0.1"}),
        ],
    )
    def test_commands_tell_a_limit(self, project: Path, file: str, text: str, limits: dict[str, str]) -> None:
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(text)
        assert find_limits(project, {}) == limits

    def test_what_is_tried_is_no_limit_of_a_project_that_asks_for_a_python(self, project: Path) -> None:
        self.write(project, tox_ini="[tox]\nenvlist = py310,py311\n")
        assert find_limits(project, {}) == {"python": "3.12"}
        self.write(project, setup_py="setup(python_requires='>=3.10')\n")
        assert find_limits(project, {}) == {}

    def test_every_source_in_its_order(self, project: Path) -> None:
        def torch(**configured: str) -> str | None:
            return find_versions(project, configured).get("torch")

        packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
        (packages / "torch-2.6.0+cpu.dist-info").mkdir(parents=True)
        (packages / "torch_geometric-2.0.dist-info").mkdir()
        assert torch() == "2.6.0"
        self.write(project, poetry_lock='[[package]]\nname = "torch"\nversion = "2.5.1"\ndescription = ""\n')
        assert torch() == "2.5.1"
        sorted_keys = '[[package]]\nname = "torch"\noptional = false\npython-versions = ">=3.9"\nversion = "2.4.9"\n'
        self.write(project, poetry_lock=f'[[package]]\nname = "other"\n\n[extras]\nversion = "1.0"\n\n{sorted_keys}')
        assert torch() == "2.4.9"
        self.write(project, uv_lock='[[package]]\nname = "torch"\nversion = "2.4.1+cu121"\nsource = { }\n')
        assert torch() == "2.4.1"
        self.write(project, requirements__dev_txt="torch>=2.3\n")
        assert torch() == "2.3"
        self.write(project, pyproject_toml="[project]\ndependencies = ['torch>=2.2']\n")
        assert torch() == "2.2"
        assert torch(torch="2.1") == "2.1"

    def test_the_lowest_of_several_groups_and_the_ways_of_poetry(self, project: Path) -> None:
        self.write(
            project,
            pyproject_toml="""
[project]
optional-dependencies = {gpu = ["torch>=2.10"], cpu = ["torch>=2.9"]}
[dependency-groups]
dev = ["pytorch_lightning>=2.0", {include-group = "x"}]
[tool.poetry.dependencies]
transformers = {version = "^4.40", extras = ["x"]}
accelerate = "0.30"
torchaudio = {url = "https://example.com/cu117/torchaudio-0.13.1%2Bcu117-cp39-cp39-linux_x86_64.whl"}
torchvision = {path = "../vision"}
[tool.poetry.group.dev.dependencies]
timm = "~1.0"
""",
        )
        assert find_versions(project, {}) == {
            "torch": "2.9", "pytorch-lightning": "2.0", "transformers": "4.40", "accelerate": "0.30", "timm": "1.0",
            "torchaudio": "0.13.1",
        }  # fmt: skip

    def test_the_active_environment_is_read_where_there_is_no_other(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / "env" / "Lib" / "site-packages" / "torch-2.0.1.dist-info").mkdir(parents=True)
        monkeypatch.setenv("VIRTUAL_ENV", str(project / "env"))
        assert find_versions(project, {}) == {"torch": "2.0.1"}
        part = project / "packages" / "part"
        part.mkdir(parents=True)
        assert find_versions(part, {}) == {}
        (project / ".git").mkdir()
        assert find_versions(part, {}) == {"torch": "2.0.1"}

    def test_the_environment_of_a_tool_tells_nothing_of_a_project(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / "tools" / "Lib" / "site-packages" / "torch-2.0.1.dist-info").mkdir(parents=True)
        monkeypatch.setenv("VIRTUAL_ENV", str(project / "tools"))
        (project / "repository").mkdir()
        assert find_versions(project / "repository", {}) == {}

    def test_the_python_that_a_project_requires(self, project: Path) -> None:
        self.write(project, pyproject_toml="[project]\nrequires-python = '>=3.8,<3.10'\n")
        assert find_limits(project, {}) == {"python": "3.10"}

    @pytest.mark.parametrize("text", ["[project\n", "project = 1", "[project]\ndependencies = 'torch>=2'", "\x00"])
    def test_a_broken_pyproject_gives_no_version(self, project: Path, text: str) -> None:
        self.write(project, pyproject_toml=text)
        assert find_versions(project, {}) == {}
