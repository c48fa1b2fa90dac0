"""ELMo's computation: readable, differentiable, the reference for the fast version.

Letters in shapes, besides B, T, L, W and n of `elmo_cli`:

    N    tokens of all sentences together; U of them are distinct
    C    characters per token, with its two markers: 50
    E    size of a character's vector; F of a token's features, one per filter
    K    directions: forward, backward or both
    P    size of a token vector and of a hidden state: W / 2
    D    size of a memory cell
    M    nodes of a trie, see `elmo_cli.inference.trie`
    V    words in the vocabulary; R of them are in memory at a time
    m    another number, said where it occurs
"""
