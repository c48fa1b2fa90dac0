"""Text of a sentence from its tokens."""

import pytest

from elmo_cli.text.join_tokens import join_tokens, spaces_before

SENTENCES = {
    "The plant has long , thin leaves .": "The plant has long, thin leaves.",
    "I don 't like them ! '": "I don't like them!'",
    "I do n't , you 're late .": "I don't, you're late.",
    "Alice 's cat ( a big one ) ran ; why ?": "Alice's cat (a big one) ran; why?",
    'He said : " Come in , " and left .': 'He said: "Come in," and left.',
    "' Not at all , ' said Alice .": "'Not at all,' said Alice.",
    "'Well , I 'll eat it , ' said Alice , 'and": (
        "'Well, I'll eat it,' said Alice, 'and"
    ),
    "in a way , ' she said": "in a way,' she said",
    "the girls ' room": "the girls' room",
    "`` Why ? '' he asked": "``Why?'' he asked",
    "It cost $ 5 , or 10 % .": "It cost $5, or 10%.",
    "bank $ <1> & co": "bank $ <1> & co",
    "L' homme qu' elle aime": "L'homme qu'elle aime",
    "the dogs' owners": "the dogs' owners",
    "我 们 去 银行 。": "我们去银行。",
    "« Oui »": "«Oui»",
    ". . .": "...",
    "": "",
}


@pytest.mark.parametrize("tokens", SENTENCES)
def test_tokens_are_joined_as_people_write_them(tokens: str) -> None:
    assert join_tokens(tokens.split()) == SENTENCES[tokens]


def test_each_token_has_or_has_no_space_before_it() -> None:
    spaces = spaces_before(["Don", "'t", "go", "!"])
    assert spaces == [False, False, True, False]
