"""The mutations that show the simulator's worth: each still finds the text that it breaks."""

import pytest
from tests.simulation.mutation import SOURCE, Mutation
from tests.simulation.mutations import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_a_mutation_breaks_stands_once_in_its_module(mutation: Mutation) -> None:
    for file in mutation.files:
        text = (SOURCE / file).read_text()
        for before, after in mutation.changes(file):
            assert text.count(before) == 1
            text = text.replace(before, after)
        compile(text, file, "exec")
