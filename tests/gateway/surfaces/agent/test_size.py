"""What the list of tools costs an agent before it has done anything: 6,000 tokens at most, by a real tokenizer."""

import json
import subprocess

from tests.gateway.surfaces.agent.node import node_environment, node_modules
from tests.support.agent_tools import list_tools
from tests.support.agents import Agent

MOST = 6_000
# The vocabulary is GPT-4o's (o200k_base). Other models' tokenizers cut JSON into some more, or fewer, pieces.
COUNT = (
    "import {encode} from 'gpt-tokenizer'; process.stdin.toArray().then(t => console.log(encode(t.join('')).length))"
)


def count_tokens(text: str) -> int:
    counted = subprocess.run(
        ["node", "--input-type=module", "--eval", COUNT],
        input=text,
        cwd=node_modules().parent,
        env=node_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert counted.returncode == 0, counted.stderr
    return int(counted.stdout)


def test_it_counts() -> None:
    assert 5 <= count_tokens("How many tokens are these words?") <= 10


def test_all_tools_together_are_small(agent: Agent) -> None:
    tools = list(list_tools(agent).values())
    assert len(tools) == 16
    assert count_tokens(json.dumps({"tools": tools})) <= MOST
