"""Selectors, and the settings that result from configuration: rules, severities, globs, versions."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest

from dllint.config import resolve as resolve_module
from dllint.config.load import ConfigError, ConfigLoader, Source
from dllint.config.notes import told_by_text
from dllint.config.resolve import resolve
from dllint.config.selectors import ENGINE_CODES, Layer, Selection, Selectors, UnknownSelectorError
from dllint.config.settings import Settings
from dllint.config.versions import find_limits, find_versions
from dllint.engine_rules import ENGINE_RULES
from dllint.errors import nearest
from dllint.rule import Rule


def rule(code: str, name: str, category: str, default: bool = True) -> type[Rule]:
    return type(name, (Rule,), {"code": code, "name": name, "category": category, "default": default})


RULES = (
    *ENGINE_RULES,
    rule("DL101", "softmax-before-cross-entropy", "correctness"),
    rule("DL102", "sigmoid-before-bce", "suspicious"),
    rule("DL110", "ignore-index-mismatch", "pedantic", default=False),
    rule("DL202", "missing-zero-grad", "correctness"),
    rule("AXC01", "bad-config", "correctness"),
)
SELECTORS = Selectors(RULES)


def enabled(*layers: Layer) -> set[str]:
    """The enabled codes besides the engine's own."""
    return set(SELECTORS.select(layers).enabled - ENGINE_CODES)


class TestSelectors:
    @pytest.mark.parametrize(
        ("selector", "codes"),
        [
            ("DL101", {"DL101"}),
            ("softmax-before-cross-entropy", {"DL101"}),
            ("DL1", {"DL101", "DL102", "DL110"}),
            ("DL10", {"DL101", "DL102"}),
            ("DL2", {"DL202"}),
            ("AXC", {"AXC01"}),
            ("pedantic", {"DL110"}),
            ("ALL", {rule.code for rule in RULES}),
        ],
    )
    def test_what_they_mean(self, selector: str, codes: set[str]) -> None:
        assert SELECTORS.expand(selector) == codes

    @pytest.mark.parametrize("selector", ["DL9", "D", "dl101", "all", "", "DL101x", "softmax", "E501"])
    def test_what_means_no_rule_is_an_error(self, selector: str) -> None:
        with pytest.raises(UnknownSelectorError):
            SELECTORS.expand(selector)

    def test_the_error_suggests(self) -> None:
        with pytest.raises(UnknownSelectorError, match="did you mean `missing-zero-grad`"):
            SELECTORS.expand("missing-zerograd")

    def test_the_default_rules_run_when_nothing_is_selected(self) -> None:
        assert enabled() == {"DL101", "DL102", "DL202", "AXC01"}
        assert SELECTORS.select(()).enabled >= ENGINE_CODES

    def test_select_replaces_and_extend_select_adds(self) -> None:
        assert enabled(Layer(["DL202"])) == {"DL202"}
        assert enabled(Layer(None, ["DL110"])) == {"DL101", "DL102", "DL110", "DL202", "AXC01"}
        assert enabled(Layer(["DL202"], ["DL110"])) == {"DL202", "DL110"}
        assert enabled(Layer([])) == set()

    def test_the_more_precise_selector_wins(self) -> None:
        assert enabled(Layer(["DL101"], (), ["DL1"])) == {"DL101"}
        assert enabled(Layer(["DL1"], (), ["DL10"])) == {"DL110"}
        assert enabled(Layer(["ALL"], (), ["DL1"])) == {"DL202", "AXC01"}
        assert enabled(Layer(["DL10"], (), ["pedantic", "correctness"])) == {"DL101", "DL102"}

    def test_ignore_wins_at_equal_precision(self) -> None:
        assert enabled(Layer(["DL101"], ["DL102"], ["softmax-before-cross-entropy"])) == {"DL102"}

    def test_a_later_source_replaces_or_changes(self) -> None:
        file = Layer(["DL1"], (), ["DL101"])
        assert enabled(file, Layer(["DL101"])) == {"DL101"}
        assert enabled(file, Layer(None, (), ["DL102"])) == {"DL110"}
        assert enabled(file, Layer(None, ["DL101"])) == {"DL101", "DL102", "DL110"}

    def test_the_engine_s_own_rules_stay_on_until_ignored(self) -> None:
        assert SELECTORS.select([Layer(["DL101"])]).enabled == ENGINE_CODES | {"DL101"}
        ignoring = Layer(None, (), ["unused-suppression"])
        assert "DL004" not in SELECTORS.select([ignoring, Layer(["DL101"])]).enabled

    @pytest.mark.parametrize(
        ("select", "explicit"),
        [
            (["DL101"], {"DL101"}),
            (["softmax-before-cross-entropy"], {"DL101"}),
            (["DL1", "correctness"], set()),
            (["pedantic"], {"DL110"}),
            (["ALL"], {rule.code for rule in RULES}),
        ],
    )
    def test_rules_asked_for_by_name_show_all_their_findings(self, select: list[str], explicit: set[str]) -> None:
        selection = SELECTORS.select([Layer(select)])
        assert selection.explicit == explicit
        assert SELECTORS.select([Layer(None, select)]).explicit == explicit

    def test_what_is_ignored_again_is_not_explicit(self) -> None:
        selection = SELECTORS.select([Layer(["DL101", "DL102"]), Layer(None, (), ["DL101"])])
        assert selection == Selection(ENGINE_CODES | {"DL102"}, frozenset({"DL102"}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(resolve_module, "list_rules", lambda extra, plugins: RULES)
    return tmp_path


def settings(project: Path, text: str = "", *overrides: Source) -> Settings:
    (project / "dllint.toml").write_text(text)
    return resolve(ConfigLoader(overrides=overrides).load(project))


class TestSettings:
    def test_the_defaults(self, project: Path) -> None:
        found = settings(project)
        assert (found.root, found.fail_on, found.time_limit) == (project, "warning", 20.0)
        assert found.baseline == project / ".dllint_baseline.json"
        assert found.enabled == found.defaults
        assert "torch" not in found.versions

    def test_an_unknown_selector_is_an_error_with_its_line(self, project: Path) -> None:
        text = "select = ['missing-zerograd']\n[per-file-ignores]\n'a.py' = ['nothing']\n[severity]\nDL7 = 'info'\n"
        with pytest.raises(ConfigError) as caught:
            settings(project, text)
        first, second, third = str(caught.value).splitlines()
        assert first == "dllint.toml:1: unknown rule `missing-zerograd`; did you mean `missing-zero-grad`?"
        assert second.startswith("dllint.toml:4: unknown rule `DL7`")
        assert third.startswith("dllint.toml:3: unknown rule `nothing`")

    @pytest.mark.parametrize(
        ("word", "suggested"),
        [("DL204", "DL203"), ("dl20", "DL203"), ("DL999", "DL901"), ("DL301", None), ("softmx", "softmax")],
    )
    def test_a_misspelled_code_is_near_to_codes_of_its_family_alone(self, word: str, suggested: str | None) -> None:
        assert nearest(word, ["DL101", "DL104", "DL203", "DL401", "DL901", "softmax"]) == suggested

    def test_the_command_line_comes_last(self, project: Path) -> None:
        override = Source("command line", project, {"select": ["DL202"], "fail-on": "never"})
        found = settings(project, "select = ['DL101']\nfail-on = 'error'\n", override)
        assert found.enabled - ENGINE_CODES == {"DL202"}
        assert found.fail_on == "never"

    def test_severities_by_the_most_precise_selector(self, project: Path) -> None:
        found = settings(project, "[severity]\nDL101 = 'error'\nDL1 = 'info'\ncorrectness = 'warning'\n")
        assert found.severities == {
            "DL001": "warning", "DL002": "warning", "DL005": "warning", "DL202": "warning", "AXC01": "warning",
            "DL101": "error", "DL102": "info", "DL110": "info",
        }  # fmt: skip

    def test_globs_of_an_extended_file_are_relative_to_that_file(self, project: Path) -> None:
        (project / "base").mkdir()
        (project / "base" / "dllint.toml").write_text(
            "exclude = ['gen/*.py', '*.tmp.py', 'out/']\n[per-file-ignores]\n'!../tests/**' = ['DL1']\n"
        )
        found = settings(project, "extend = 'base/dllint.toml'\nexclude = ['out/**']\nrule-paths = ['lints']\n")
        assert found.exclude == ("base/gen/*.py", "*.tmp.py", "out/", "out/**")
        assert found.per_file_ignores == (("!tests/**", frozenset({"DL101", "DL102", "DL110"})),)
        assert found.rule_paths == (project / "lints",)

    @pytest.mark.parametrize(
        ("glob", "matched"),
        [
            ("tests/**", {"tests/a.py", "tests/b/c.py"}),
            ("test_*.py", {"test_x.py", "src/test_y.py"}),
            ("!src/**", {"tests/a.py", "tests/b/c.py", "test_x.py"}),
            ("src", {"src/test_y.py", "src/m.py"}),
        ],
    )
    def test_per_file_ignores(self, project: Path, glob: str, matched: set[str]) -> None:
        found = settings(project, f"[per-file-ignores]\n'{glob}' = ['DL10', 'DL202']\n'm.py' = ['DL202']\n")
        files = ["tests/a.py", "tests/b/c.py", "test_x.py", "src/test_y.py", "src/m.py"]
        assert {name for name in files if "DL101" in found.ignored_in(project / name)} == matched
        assert "DL202" in found.ignored_in(project / "src" / "m.py")

    def test_a_glob_that_can_match_nothing_is_an_error(self, project: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            settings(project, "exclude = ['a', '']\n[per-file-ignores]\n'[x' = ['DL1']\n")
        first, second = str(caught.value).splitlines()
        assert first.startswith("dllint.toml:1: ") and second.startswith("dllint.toml:3: ")

    def test_no_baseline(self, project: Path) -> None:
        assert settings(project, "baseline = ''\n").baseline is None

    def test_workers_get_the_same_settings(self, project: Path) -> None:
        found = settings(project, "[knowledge.loss]\n'a.B' = {input = 'logits'}\n")
        assert pickle.loads(pickle.dumps(found)) == found

    def test_the_cache_key_depends_on_what_bears_on_findings_and_on_nothing_else(self, project: Path) -> None:
        plain = settings(project).cache_key()
        assert settings(project, "fail-on = 'error'\nexclude = ['a']\n").cache_key() == plain
        for text in (
            "ignore = ['DL101']",
            "torch-version = '2.1'",
            "require-reason = true",
            "time-limit = 1",
            "[severity]\nDL101 = 'info'",
            "[knowledge.aliases]\n'a.b' = 'torch.softmax'",
            "[per-file-ignores]\n'a.py' = ['DL1']",
        ):
            assert settings(project, text).cache_key() != plain, text

    def test_the_cache_key_is_the_same_elsewhere(self, project: Path) -> None:
        other = project / "other"
        other.mkdir()
        assert (
            settings(project, "rule-paths = ['r']\n").cache_key() == settings(other, "rule-paths = ['r']\n").cache_key()
        )


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

    def test_the_image_of_a_dockerfile_may_have_arguments(self, project: Path) -> None:
        text = 'ARG TORCH="1.5.1"\nARG CUDA="10.1"\nFROM pytorch/pytorch:${TORCH}-cuda${CUDA}-devel\n'
        (project / "Dockerfile").write_text(text)
        assert find_limits(project, {}) == {"python": "3.8", "torch": "1.5.1.1"}

    def test_setup_and_environments(self, project: Path) -> None:
        self.write(project, setup_py="from setuptools import setup\nsetup(install_requires=['numpy<1.24', 'torch'])\n")
        pinned = "dependencies:\n  - pytorch=1.7.1=py3.8_cuda\n  - pip:\n    - transformers==4.2.1\n    - timm>=0.4\n"
        (project / "environment.yml").write_text(pinned)
        assert find_versions(project, {}) == {"torch": "1.7.1", "transformers": "4.2.1", "timm": "0.4"}
        assert find_limits(project, {}) == {"numpy": "1.24", "torch": "1.7.2", "transformers": "4.2.1.1"}
        assert find_limits(project, {"Numpy": "1.20"})["numpy"] == "1.20.0.1"

    def test_an_environment_of_conda_may_stand_in_requirements(self, project: Path) -> None:
        self.write(project, requirements_txt="# platform: win-64\npytorch=1.7.0=py3.6_cuda110_cudnn8_0\n")
        assert find_versions(project, {}) == {"torch": "1.7.0"}
        assert find_limits(project, {}) == {"torch": "1.7.1"}

    def test_of_several_sources_the_strictest_limit_counts(self, project: Path) -> None:
        self.write(project, pyproject_toml="[project]\ndependencies = ['torch', 'numpy<3', 'transformers>=4.50']\n")
        (project / "README.md").write_text("Runs with transformers 4.20.\n")
        self.write(project, requirements_txt="torch==1.13.0\nnumpy<2\ntransformers\n")
        (project / "requirements-dev.txt").write_text("torch\n")
        assert find_limits(project, {}) == {"numpy": "2", "torch": "1.13.0.1"}  # 4.20 is below what is required
        assert find_limits(project, {"torch": "2.1"})["torch"] == "2.1.0.1"

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
            ("README.md", "pip install sentence-transformers==2.2.0 numpy\n", {}),
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
            ("README.md", "CUDA 10.1 or later, scikit-learn >= 0.21, mxnet 1.9\n", {}),
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
[tool.poetry.group.dev.dependencies]
timm = "~1.0"
""",
        )
        assert find_versions(project, {}) == {
            "torch": "2.9", "pytorch-lightning": "2.0", "transformers": "4.40", "accelerate": "0.30", "timm": "1.0",
        }  # fmt: skip

    def test_the_active_environment_is_read_where_there_is_no_other(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / "env" / "Lib" / "site-packages" / "torch-2.0.1.dist-info").mkdir(parents=True)
        monkeypatch.setenv("VIRTUAL_ENV", str(project / "env"))
        assert find_versions(project, {}) == {"torch": "2.0.1"}

    def test_the_python_that_a_project_requires(self, project: Path) -> None:
        self.write(project, pyproject_toml="[project]\nrequires-python = '>=3.8,<3.10'\n")
        assert find_limits(project, {}) == {"python": "3.10"}

    @pytest.mark.parametrize("text", ["[project\n", "project = 1", "[project]\ndependencies = 'torch>=2'", "\x00"])
    def test_a_broken_pyproject_gives_no_version(self, project: Path, text: str) -> None:
        self.write(project, pyproject_toml=text)
        assert find_versions(project, {}) == {}

    def test_configured_versions(self, project: Path) -> None:
        found = settings(project, "torch-version = '2.1'\n[versions]\nLightning = '2.2'\ntorch = '1.0'\n")
        assert found.versions == {"lightning": "2.2", "torch": "2.1"}
        assert found.versions["torch"] == "2.1"
