"""The clients that openapi-generator makes of the document: made without complaints, and they do what was meant."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import openapi_generator_cli
import pytest

from directory.models import DirectoryConnection
from lab.commands import PROJECT
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.clients.conftest import node_modules, node_path
from tests.support.cast import make_integration

PROGRAMS = Path(__file__).parent / "generated"
DOCUMENT = PROJECT / "docs" / "openapi" / "api.json"

NOT_ABOUT_THE_DOCUMENT = (
    "OpenAPI 3.1 support is still in beta.",  # of every document of this version
    "Failed to get the schema name: null",  # of every document: the generator looks for references that need not be
    "From (reserved word) cannot be used as model name.",  # of the parameter `from`, which is no model
    "string (reserved word) cannot be used as model name.",  # of one of the values of `oneOf`, in Go
)
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For Java that runs for seconds: compiling its code well, or collecting in threads, takes longer than it saves."""
NEVER_EXPIRES = 0x10000
Do = Callable[[list[str], Path], str]


def generate(generator: str, to: Path, *options: str) -> None:
    """Make a client, and fail with whatever the generator complains of."""
    command = ["generate", "-i", str(DOCUMENT), "-g", generator, "-o", str(to), *options]
    only_code = (
        "--global-property",
        "models,apis,supportingFiles,apiDocs=false,modelDocs=false,apiTests=false,modelTests=false",
    )
    made = subprocess.run(
        [Path(sys.executable).with_name("openapi-generator-cli"), *command, *only_code],
        env={**os.environ, "JDK_JAVA_OPTIONS": " ".join(BRIEF)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    complaints = [
        line
        for line in made.stdout.splitlines()
        if (" WARN " in line or " ERROR " in line) and not any(known in line for known in NOT_ABOUT_THE_DOCUMENT)
    ]
    assert (made.returncode, complaints) == (0, []), made.stdout


@pytest.fixture
def person(directory: Directory, organizational_unit: str) -> UUID:
    """The only one in the unit. Their password never expires, which no program says a word about."""
    control = str(0x200 | 0x20 | NEVER_EXPIRES)
    return directory.add_user(
        "Ada Lovelace", parent=organizational_unit, userAccountControl=control, mail="ada@corp.test"
    )


@pytest.fixture
def do(
    transactional_db: None,
    live_gateway: LiveGateway,
    connection: DirectoryConnection,
    organizational_unit: str,
    directory: Directory,
    person: UUID,
) -> Do:
    """Runs a program about the person, then looks that nothing was changed but what it set; its output."""
    environment = {
        **os.environ,
        "PATH": node_path(),
        "GATEWAY_URL": live_gateway.base_url,
        "GATEWAY_KEY": make_integration(connection).value,
        "GATEWAY_UNIT": organizational_unit,
    }

    def run(command: list[str], place: Path) -> str:
        before = directory.read(person)
        ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        after = directory.read(person)
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        assert changed - {"uSNChanged", "whenChanged"} == {"title", "accountExpires"}
        assert after["title"] == [b"Countess"]
        return ran.stdout

    return run


def test_in_python(tmp_path: Path, do: Do) -> None:
    generate("python", tmp_path, "--package-name", "gateway_generated")
    (tmp_path / "everyday.py").write_bytes((PROGRAMS / "everyday.py").read_bytes())
    assert "AD.Object.NotFound" in do([sys.executable, "everyday.py"], tmp_path)


def test_in_typescript(tmp_path: Path, do: Do) -> None:
    generate("typescript-fetch", tmp_path / "generated", "--additional-properties", "importFileExtension=.js")
    (tmp_path / "node_modules").symlink_to(node_modules())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "everyday.ts").write_bytes((PROGRAMS / "everyday.ts").read_bytes())
    settings = ("--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck", "--outDir", "built")
    compiled = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", *settings, "everyday.ts"],
        cwd=tmp_path,
        env={**os.environ, "PATH": node_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stdout
    (tmp_path / "built" / "package.json").write_text('{"type": "module"}')
    assert "AD.Object.NotFound" in do(["node", "built/everyday.js"], tmp_path)


def test_in_go(tmp_path: Path, do: Do) -> None:
    # With Debian's packages, since Go's own are fetched from elsewhere.
    to = tmp_path / "src" / "gateway"
    generate("go", to, "--additional-properties", "packageName=gateway,withGoMod=false,enumClassPrefix=true")
    (tmp_path / "everyday.go").write_bytes((PROGRAMS / "everyday.go").read_bytes())
    environment = {"GO111MODULE": "off", "GOPATH": f"{tmp_path}:/usr/share/gocode"}
    quickly = ("-gcflags=gateway=-N -l -dwarf=false", "-ldflags=-s -w")  # what is run once need not be fast
    built = subprocess.run(
        ["go", "build", *quickly, "everyday.go"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "AD.Object.NotFound" in do(["./everyday"], tmp_path)


def test_in_java(tmp_path: Path, do: Do) -> None:
    # With the Jackson that the generator itself brings; what is missing of Jakarta's annotations is made here.
    settings = "openApiNullable=false,supportUrlQuery=false,useJakartaEe=true,useSingleRequestParameter=true"
    mapped = ("--schema-mappings", "Replace_value=Object", "--parameter-name-mappings", "wait=waitSeconds")
    generate("java", tmp_path / "generated", "--library", "native", "--additional-properties", settings, *mapped)
    annotations = tmp_path / "jakarta" / "annotation"
    annotations.mkdir(parents=True)
    for name, members in (
        ("Generated", "String[] value(); String date(); String comments();"),
        *(("Nullable", ""), ("Nonnull", "")),
    ):
        declared = f"package jakarta.annotation; public @interface {name} {{ {members} }}"
        (annotations / f"{name}.java").write_text(declared)
    (tmp_path / "Everyday.java").write_bytes((PROGRAMS / "Everyday.java").read_bytes())
    jar = Path(openapi_generator_cli.__file__).with_name("openapi-generator.jar")
    sources = [
        *(tmp_path / "generated" / "src" / "main").rglob("*.java"),
        *annotations.iterdir(),
        tmp_path / "Everyday.java",
    ]
    built = subprocess.run(
        ["javac", *(f"-J{option}" for option in BRIEF), "-proc:none", "-nowarn", "-cp", jar, "-d", "built", *sources],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "AD.Object.NotFound" in do(["java", *BRIEF, "-cp", f"built{os.pathsep}{jar}", "Everyday"], tmp_path)
