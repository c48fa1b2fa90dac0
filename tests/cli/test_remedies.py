"""Remedies in messages: each is given after the command that fails, and works."""

import gzip
import shlex
import shutil
import subprocess
from pathlib import Path

import h5py
import pytest
from commands import elmo
from strategies import make_language_model, small_architecture

FILES: dict[str, str | bytes] = {
    "text.txt": "the cat sat\nthe dog sat\nthe cat\na cat\nno cat ran\n",
    "the.txt": "the cat\n",
    "words.txt": "cat\n",
    "upper.txt": "Cat\n",
    "both.txt": "Cat\ncat\n",
    "city.txt": "New York\n",
    "counts.txt": "the 3\ncat 2\nsat 2\na 1\ndog 1\n",
    "punctuation.txt": "The cat sat. Then, it ran.\n" * 4,
    "wrapped.txt": "and this is a line of seventy characters , which does not end in here\n" * 40,
    "chinese.txt": "今天天气很好我们一起去公园散步吧然后再去吃饭。\n" * 3,
    "marks.txt": "a \ufeffcat\n" * 2,
    "control.txt": "a \x93cat\x94\n",
    "latin.txt": "the caf\xe9\n".encode("latin-1"),
    "windows.txt": "the \u201ccat\u201d\n".encode("windows-1252"),
    "utf16.txt": "the cat\n".encode("utf-16"),
    "utf16le.txt": "the cat\n".encode("utf-16-le"),
    "utf32.txt": "the cat\n".encode("utf-32"),
    "items.csv": "id,item,n\n1,the cat sat,3\n2,a cat,4\n",
    "items.txt": "id\ttext\n1\tthe cat sat\n2\ta cat\n",
    "numbers.csv": "id,text,item\n1,3,the cat\n2,4,a cat\n",
    "repeated.csv": "id,text\n1,the cat\n1,a cat\n",
    "empty-id.csv": "id,text\n,the cat\n2,a cat\n",
    "twice.csv": "text,text\na,b\n",
    "story.csv": "story,word\n" + "1,the\n1,cat\n" * 5 + "2,a\n2,cat.\n",
    "passages.csv": "text\n" + "The cat sat there. The dog ran home.\n" * 20,
    "receptors.csv": "text\n" + "CASSLGNEQF\n" * 20,
    "quotes.tsv": 'id\ttext\n1\t"the" cat\n2\ta cat\n',
    "words.tsv": "the\tX\ncat\tY\n\na\tX\ncat\tY\n",
    "queries.csv": "word,text\nthe,the cat the\n",
    "numbered.csv": "word,text,occurrence\nthe,the cat the,2\n",
    "words.conll": "the X\ncat Y\n\na X\n",
    "words.conllu": "the X\ncat Y\n\na X\n",
    "ids.conllu": "# sent_id = a\n1\tthe\n\n1\tcat\n",
    "reads.fastq": "@x\nACGT\n+\nIIII\n",
    "objects.json": '{"id": "a", "text": "the cat"}\n{"id": "b", "text": "a cat"}\n',
    "nested.jsonl": '{"data": {"text": "the cat"}}\n',
    "later.jsonl": '{"text": "the"}\n{"text": "a", "x": "y"}\n',
    "slash.jsonl": '{"id": "a/b", "text": "the cat"}\n',
    "break.jsonl": '{"id": "a\\nb", "text": "the cat"}\n',
    "wrong.jsonl": '{"text": "the"}\n[1]\n',
    "missing.csv": "word,count\nzebra,3\n",
    "upper-vocabulary": "<S>\n</S>\n<UNK>\nTHE\nCAT\n",
    "missing.txt": "NA null\n",
}
"""Inputs by their names."""

REMEDIES = r"""
# Inputs that are not UTF-8 text
! elmo embed latin.txt o.h5
not valid UTF-8 (byte 0xe9). If it is Windows-1252 or Latin-1, convert it with `iconv
$ iconv -f windows-1252 -t utf-8 latin.txt | elmo surprisal -
café
! elmo embed windows.txt o.h5
convert it with `iconv -f windows-1252 -t utf-8`.
$ iconv -f windows-1252 -t utf-8 windows.txt | elmo surprisal - --tokenizer moses:verbatim
“
! elmo embed utf16.txt o.h5
UTF-16, not UTF-8 text. Convert it with `iconv -f utf-16 -t utf-8`.
$ iconv -f utf-16 -t utf-8 utf16.txt | elmo embed - o.h5
1 sentence, 2 tokens
! elmo embed utf16le.txt o.h5
Convert it with `iconv -f utf-16le -t utf-8`.
$ iconv -f utf-16le -t utf-8 utf16le.txt | elmo embed - o.h5
1 sentence, 2 tokens
! elmo embed utf32.txt o.h5
Convert it with `iconv -f utf-32 -t utf-8`.
$ iconv -f utf-32 -t utf-8 utf32.txt | elmo embed - o.h5
1 sentence, 2 tokens
! elmo surprisal control.txt
Repair them with `perl -CSD -MEncode -pe 's/[\x80-\x9f]/decode("cp1252", $&)/ge' FILE`.
$ perl -CSD -MEncode -pe 's/[\x80-\x9f]/decode("cp1252", $&)/ge' control.txt | elmo surprisal -
“cat”
! elmo embed marks.txt o.h5
Remove them with `perl -pe 's/\xef\xbb\xbf//g' FILE`.
$ perl -pe 's/\xef\xbb\xbf//g' marks.txt | elmo perplexity -
unknown            50.00%
! tar cf a.tar text.txt; elmo embed a.tar o.h5
Unpack it, for example with `tar -xOf FILE | elmo ... -`.
$ tar -xOf a.tar | elmo embed - o.h5
5 sentences, 13 tokens
! python3 -m zipfile -c a.zip text.txt; elmo embed a.zip o.h5
Unpack it, for example with `unzip -p FILE | elmo ... -`.
$ unzip -p a.zip | elmo embed - o.h5
5 sentences, 13 tokens
! sqlite3 a.db "create table t(text); insert into t values ('the cat')"; elmo embed a.db o.h5
SQLite, not UTF-8 text. Use `sqlite3 -header -csv FILE 'SELECT ...' > FILE.csv`.
$ sqlite3 -header -csv a.db 'SELECT * FROM t' > a.csv; elmo embed a.csv o.h5
1 row, 2 tokens
! elmo embed reads.fastq o.h5
Convert it to FASTA with `awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' FILE > FILE.fasta`.
$ awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' reads.fastq > a.fasta; elmo embed a.fasta o.h5
1 sequence, 4 tokens
! elmo embed words.conll o.h5
Otherwise write one sentence per line: `awk 'NF {printf "%s ", $1; next} {print ""}' FILE >
$ awk 'NF {printf "%s ", $1; next} {print ""}' words.conll > a.txt; elmo embed a.txt o.h5
2 sentences, 3 tokens
! elmo embed words.conllu o.h5
If this is another kind of CoNLL, write one sentence per line: `awk 'NF {printf "%s ", $1; next}
$ awk 'NF {printf "%s ", $1; next} {print ""}' words.conllu > a.txt; elmo embed a.txt o.h5
2 sentences, 3 tokens
! elmo embed words.tsv o.h5 --input-format text
If each line has a word, write one sentence per line: `awk 'NF {printf "%s ", $1; next} {print ""}'
$ awk 'NF {printf "%s ", $1; next} {print ""}' words.tsv > a.txt; elmo embed a.txt a.h5
2 sentences, 4 tokens
! elmo embed items.txt o.h5
every line of the text has tabs. If it is a table with a header, use --input-format tsv
$ elmo embed items.txt table.h5 --input-format tsv --text-column text
2 rows, 5 tokens
$ cut -f 2 items.txt | elmo embed - column.h5
3 sentences, 6 tokens

# Formats and columns
! elmo surprisal 'The cat sat .'
Give the name of a file, or pipe a text: `echo TEXT | elmo ... -`.
$ echo 'The cat sat .' | elmo surprisal -
4 tokens
! elmo usages text.txt o.h5 --words cat
Give the name of a file, or pipe a text: `echo TEXT | elmo ... -`.
$ echo cat | elmo usages text.txt o.h5 --words -
cat: 4 occurrences
! elmo embed objects.json o.h5 --input-format json
If each line is an object, use --input-format jsonl.
$ elmo embed objects.json o.h5
2 records, 4 tokens
$ cat objects.json | elmo embed - o.h5
o.h5 is complete already
$ cat objects.json | elmo embed - text.h5 --input-format text
2 sentences, 10 tokens
! elmo embed items.csv o.h5
Choose one with --text-column.
$ elmo embed items.csv o.h5 --text-column item
2 rows, 5 tokens
! elmo embed nested.jsonl o.h5
found 'data', 'data.text'. Choose one with --text-column.
$ elmo embed nested.jsonl o.h5 --text-column data.text
1 record, 2 tokens
! elmo embed items.csv o.h5 --text-column item --id-column x
Choose one with --id-column.
$ elmo embed items.csv o.h5 --text-column item --id-column n
2 rows, 5 tokens
! elmo embed items.txt o.h5 --text-column text
it has no columns. If it is a table, use --input-format csv, or tsv with tabs.
$ elmo embed items.txt o.h5 --text-column text --input-format tsv
2 rows, 5 tokens
! elmo embed numbers.csv o.h5
Warning: the texts of the table are numbers (3). Choose another with --text-column.
$ elmo embed numbers.csv o.h5 --text-column item --overwrite
2 rows, 4 tokens
! elmo embed story.csv o.h5 --text-column word
If they are the words of a text, use --word-column.
$ elmo embed story.csv o.h5 --word-column word --id-column story --overwrite
2 rows, 13 tokens
! elmo embed story.csv o.h5 --word-column word
expected the id of a text with --word-column, found none. Use --id-column.
$ elmo embed story.csv o.h5 --word-column word --id-column story
2 rows, 13 tokens
! elmo embed repeated.csv o.h5
or use --layout packed, Parquet or JSON lines. To number the records instead, use --id-column "".
$ elmo embed repeated.csv packed.h5 --layout packed
2 rows, 4 tokens
$ elmo embed repeated.csv o.jsonl
2 rows, 4 tokens
$ elmo embed repeated.csv o.h5 --id-column ""
2 rows, 4 tokens
! elmo embed empty-id.csv o.h5
the id is empty. To number the records instead, use --id-column "".
$ elmo embed empty-id.csv o.h5 --id-column ""
2 rows, 4 tokens
! elmo embed ids.conllu o.h5
no id, but earlier records have one. To number the records instead, use --id-column "".
$ elmo embed ids.conllu o.h5 --id-column ""
2 sentences, 2 tokens
! elmo embed slash.jsonl o.h5
cannot name a dataset of HDF5 or npz. Use --layout packed, Parquet or JSON lines.
$ elmo embed slash.jsonl o.h5 --layout packed
1 record, 2 tokens
! elmo embed break.jsonl o.npy --pooling mean
has a line end, but the file of ids next to npy has one id per line. Use Parquet or JSON lines.
$ elmo embed break.jsonl o.jsonl --pooling mean
1 record, 2 tokens
! elmo embed wrong.jsonl o.h5
line 2: expected a JSON object, found [1]
$ elmo embed wrong.jsonl o.h5 --skip-errors
2 records, 1 token
! elmo embed twice.csv o.h5
Rename all but one of them.
$ sed s/text,text/text,other/ twice.csv > once.csv; elmo embed once.csv o.h5
1 row, 1 token
! elmo surprisal later.jsonl --keep-columns all
Use --format jsonl, or name the columns with --keep-columns.
$ elmo surprisal later.jsonl --keep-columns all --format jsonl
"x": "y"
$ elmo surprisal later.jsonl --keep-columns x
known	x

# Warnings about texts
! elmo embed punctuation.txt o.h5
becomes part of the word. Use --tokenizer moses to split it off.
$ elmo embed punctuation.txt o.h5 --tokenizer moses --overwrite
4 sentences, 36 tokens
! elmo embed wrapped.txt o.h5
the text seems to be hard-wrapped: most lines end within a sentence. Use --paragraphs
$ elmo embed wrapped.txt o.h5 --paragraphs --overwrite
1 sentence, 600 tokens
! elmo embed passages.csv o.h5
contain several sentences, but the model was trained on single sentences. Use --split-sentences.
$ elmo embed passages.csv o.h5 --split-sentences --overwrite
20 rows, 200 tokens
! elmo embed receptors.csv o.h5
If the letters are residues, use --tokenizer residues.
$ elmo embed receptors.csv o.h5 --tokenizer residues --overwrite
20 rows, 200 tokens
! elmo embed chinese.txt o.h5
a whole phrase becomes one token. Use --tokenizer spacy:zh.
$ elmo embed chinese.txt o.h5 --tokenizer spacy:zh --overwrite
3 sentences, 69 tokens
! elmo surprisal missing.txt
Use read_csv(..., keep_default_na=False, na_values=[""]) in pandas, na.strings="" in R, or
$ elmo surprisal missing.txt --format jsonl
"token": "null"
! elmo surprisal text.txt --frequencies missing.csv
does not contain their words. Name its columns word and count.
$ printf 'x,count,word\na,3,cat\n' > counts.csv; elmo surprisal the.txt --frequencies counts.csv
0.000000

# Outputs
! elmo embed text.txt v.h5 --layers top
v.h5 already exists, and was written with other options: --layers (all, not top). Use
--overwrite to start over.
$ elmo embed text.txt v.h5 --layers top --overwrite
5 sentences, 13 tokens
! elmo embed the.txt v.h5
was written for a different input: its first 5 lines differ. Use --overwrite to start over.
$ elmo embed the.txt v.h5 --overwrite
1 sentence, 2 tokens
! elmo embed text.txt old.h5 --tokenizer moses
other options: normalization (none, not moses: use --tokenizer moses:en:verbatim). Use --overwrite
$ elmo embed text.txt old.h5 --tokenizer moses:en:verbatim
old.h5 is complete already
! elmo change old.h5 new.h5 --words words.txt
None in the first and moses in the second. Write the second with --tokenizer moses:en:verbatim.
$ elmo embed text.txt new.h5 --tokenizer moses:en:verbatim --overwrite
5 sentences, 13 tokens
$ elmo change old.h5 new.h5 --words words.txt
cat	0.
! elmo embed text.txt text.txt --format hdf5
the output is also an input. Choose another output.
$ elmo embed text.txt o.h5
5 sentences, 13 tokens
! elmo usages text.txt o.csv --words words.txt
vectors are not written as .csv. Choose .hdf5, .jsonl, .npz or .parquet, or name a format with
$ elmo usages text.txt o.jsonl --words words.txt
4 occurrences
$ elmo usages text.txt o.csv --words words.txt --format npz
4 occurrences
! elmo usages text.txt o.npy --words words.txt
npy cannot hold target words. Choose one of hdf5, npz, parquet, jsonl.
$ elmo usages text.txt o.npz --words words.txt
4 occurrences
! elmo embed text.txt o.xyz
Warning: o.xyz will be HDF5. Choose another format with --format.
$ elmo embed text.txt o.xyz --format jsonl --overwrite
5 sentences, 13 tokens
! elmo embed text.txt -
format hdf5 cannot go to standard output. Use --format jsonl.
$ elmo embed text.txt - --format jsonl
"sentence": "the cat sat"
! elmo embed text.txt o.jsonl --rows tokens --pooling mean
--rows tokens requires one vector per token. Remove --pooling.
$ elmo embed text.txt o.jsonl --rows tokens
5 sentences, 13 tokens
! elmo embed text.txt o.npy
format npy requires --pooling
$ elmo embed text.txt o.npy --pooling mean
5 sentences, 13 tokens
! elmo embed text.txt new/o.h5
the folder new does not exist. Create it first.
$ mkdir new; elmo embed text.txt new/o.h5
5 sentences, 13 tokens
! elmo surprisal text.txt --plot v.h5.svg
already exists. Use --overwrite to replace it.
$ elmo surprisal text.txt --plot v.h5.svg --overwrite
5 sentences
! elmo distribute text.txt model --engine none
not an `elmo distribute` folder, and not empty. Choose another folder.
$ elmo distribute text.txt parts --engine none
1 of 1 part
! elmo convert model o.safetensors
Give the file in it.
$ elmo convert model/weights.hdf5 o.safetensors
tensors
! elmo convert text.txt o.safetensors
Give the file of the weights, such as weights.hdf5.
$ elmo convert model/weights.hdf5 o.safetensors
tensors

# Devices and models
! elmo embed text.txt o.h5 --device tpu
--device 'tpu': unknown. Use auto, cpu, cuda, cuda:N or mps.
$ elmo embed text.txt o.h5 --device auto
5 sentences, 13 tokens
! elmo embed text.txt o.h5 --precision tf32
Use float32.
$ elmo embed text.txt o.h5 --precision float32
5 sentences, 13 tokens
! elmo embed text.txt o.h5 --model model/weights.hdf5
Give the folder that has the options.json and the weights of the model.
$ elmo embed text.txt o.h5 --model model
5 sentences, 13 tokens
! elmo info modle
or give the path of a folder.
$ elmo info ./model
LSTM layer
! elmo embed text.txt o.h5 --vocabulary-file words.txt
the model reads characters and takes no vocabulary. Remove --vocabulary-file.
$ elmo embed text.txt o.h5
5 sentences, 13 tokens
! elmo surprisal text.txt --model plain
Add softmax.hdf5 next to plain/weights.hdf5, or give --softmax-file.
$ elmo surprisal text.txt --model plain --softmax-file model/softmax.hdf5
13 tokens
! elmo surprisal text.txt --model plain --softmax-file softmax.hdf5
Add vocab.txt next to softmax.hdf5, or give --vocabulary-file.
$ elmo surprisal text.txt --model plain --softmax-file softmax.hdf5 --vocabulary-file vocabulary
13 tokens
! elmo embed text.txt o.h5 --model done/checkpoint.pt
a checkpoint of `elmo train`. Give its folder when that is done.
$ elmo embed text.txt o.h5 --model done
5 sentences, 13 tokens
! elmo embed text.txt o.h5 --model weights.hdf5.gz
a packed file. Unpack it, and give what is in it.
$ gunzip -c weights.hdf5.gz > plain/weights.hdf5; elmo embed text.txt o.h5 --model plain
5 sentences, 13 tokens
! elmo predict the.txt
To read its texts, use `elmo predict --file the.txt`.
$ elmo predict --file the.txt
line	rank

# Words
! elmo cosine the 'the cat the' 'the cat'
Choose one with --occurrence1, 1 to 2.
$ elmo cosine the 'the cat the' 'the cat' --occurrence1 2
average
! elmo neighbours the 'the cat the' v.h5
Choose one with --occurrence, 1 to 2.
$ elmo neighbours the 'the cat the' v.h5 --occurrence 2
[the]
! elmo neighbours --queries queries.csv v.h5
Choose one with a column `occurrence`, 1 to 2.
$ elmo neighbours --queries numbered.csv v.h5
the cat
! elmo neighbours --queries text.txt v.h5
Name its format with --input-format, or pipe lines into the command (see its --help).
$ printf 'cat\tthe cat\n' | elmo neighbours - v.h5
a cat
! elmo neighbours Cat 'the cat' v.h5
Did you mean 'cat'?
$ elmo neighbours cat 'the cat' v.h5
a [cat]
! elmo neighbours cat 'the cat' text.txt
If it is a text: `elmo embed text.txt NEW.hdf5`.
$ elmo embed text.txt NEW.hdf5
5 sentences, 13 tokens
$ elmo neighbours cat 'the cat' NEW.hdf5
a [cat]
! elmo neighbours cat 'the cat' pooled.h5
Use `elmo neighbours --sentence`, or embed without --pooling.
$ elmo neighbours --sentence 'the cat' pooled.h5
a cat
! elmo neighbours --sentence 'the cat' v.h5
`elmo embed --pooling mean` writes the former.
$ elmo neighbours --sentence 'the cat' pooled.h5
a cat
! elmo neighbours cat 'the cat' bare.h5
bare.h5: unknown model. Name it with --model.
$ elmo neighbours cat 'the cat' bare.h5 --model model
[the]
! elmo neighbours cat 'the cat' gone.h5
Give its new path with --model.
$ elmo neighbours cat 'the cat' gone.h5 --model model
a [cat]
! elmo neighbours cat 'the cat' u.npz --model model
u.npz: unknown layer. Name it with --mean-layers.
$ elmo neighbours cat 'the cat' u.npz --model model --mean-layers top
[cat]
! elmo change v.h5 copy.h5 --words words.txt --permutations 10 --correction bh
Warning: with 10 permutations of 1 word, the adjusted p of a single changed word is at least 0.091.
$ elmo change v.h5 copy.h5 --words words.txt --permutations 19 --correction bh
cat	0.
! elmo predict 'the cat' --top 1
Use --with-unknown to show it.
$ elmo predict 'the cat' --with-unknown
<UNK>
! elmo usages text.txt o.h5 --words upper.txt
4 occurrences in another case, such as 'cat', are not counted. Use --ignore-case.
$ elmo usages text.txt o.h5 --words upper.txt --ignore-case
Cat: 4 occurrences
! elmo usages text.txt o.h5 --words both.txt --ignore-case
'Cat' is a form of 'Cat' and of 'cat'. Remove one of them.
$ elmo usages text.txt o.h5 --words upper.txt --ignore-case
Cat: 4 occurrences
! elmo usages text.txt o.h5 --words words.txt --state carry
Choose --state zero or warm.
$ elmo usages text.txt o.h5 --words words.txt --state warm
4 occurrences
! elmo change v.h5 copy.h5
Name the words to compare with --words.
$ elmo change v.h5 copy.h5 --words words.txt
cat	0.
! elmo change v.h5 new.h5 --words words.txt
tokenizer is None in the first and moses:en in the second. Write the second with --tokenizer white
$ elmo embed text.txt white.h5 --tokenizer whitespace
5 sentences, 13 tokens
$ elmo change v.h5 white.h5 --words words.txt
cat	0.
! elmo change v.h5 v.h5 --words words.txt
Warning: OLD and NEW are the same file
$ elmo change v.h5 copy.h5 --words words.txt
cat	0.
! elmo word-vectors o.npz --corpus text.txt
no word occurs 5 times or more. Lower --min-count.
$ elmo word-vectors o.npz --corpus text.txt --min-count 2
3 words
! elmo word-vectors words.txt o.foo
unknown suffix '.foo'. Choose .vec, .txt or .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or .h5.
$ elmo word-vectors words.txt o.vec.gz
1 word
! elmo word-vectors city.txt o.vec
has white space, which .vec cannot store. Choose HDF5 or npz.
$ elmo word-vectors city.txt o.npz
1 word
! elmo plot cat v.h5
give WORD FILE... OUTPUT, as in `elmo plot bank old.hdf5 bank.svg`
$ elmo plot cat v.h5 cat.svg --method pca
4 of 4 occurrences

# Training
! elmo train text.txt --output new --steps 1
give --preset, --options-file or --init-from
$ elmo train text.txt --output new --steps 1 --init-from model
Wrote the model to new. See its card.md.
! elmo train text.txt --init-from model --output model --steps 1
the model to start from is in it. Choose another folder.
$ elmo train text.txt --init-from model --output new --steps 1
Wrote the model to new. See its card.md.
! elmo train text.txt --preset mini --output model --steps 1
Choose another folder, and --init-from model to start from that model.
$ elmo train text.txt --init-from model --output new --steps 1
Wrote the model to new. See its card.md.
! elmo train text.txt --init-from model/weights.hdf5 --output new --steps 1
a file of weights requires --options-file.
$ elmo train text.txt --init-from model/weights.hdf5 $OPTIONS
Wrote the model to new. See its card.md.
! elmo train nothing.txt --init-from model --output new
no such file. Name a file or a pattern of files.
$ elmo train 't*t.txt' --init-from model --output new --steps 1
Wrote the model to new. See its card.md.
! elmo train text.txt --init-from model --output new --steps 1 --validation-share 0.0001
no line chosen among 5 sentences. Use a larger share or --validation-file.
$ elmo train text.txt --init-from model --output new --steps 1 --validation-file the.txt
Wrote the model to new. See its card.md.
! elmo train text.txt $OPTIONS --vocabulary-file counts.txt
Remove the other columns, for example with `awk '{print $1}' counts.txt`.
$ awk '{print $1}' counts.txt > v; elmo train text.txt $OPTIONS --vocabulary-file v
the vocabulary lacks the words <S>, </S>, <UNK>. Add each on its own line.
$ printf '<S>\n</S>\n<UNK>\nthe\n' > v; elmo train text.txt $OPTIONS --vocabulary-file v
Wrote the model to new. See its card.md.
! elmo train text.txt $OPTIONS --vocabulary-file upper-vocabulary
Give the words as they are in the text, one per line.
$ elmo train text.txt $OPTIONS --vocabulary-file vocabulary
Wrote the model to new. See its card.md.
! elmo train text.txt --init-from model --output finished --steps 2
To train longer, choose another folder and --init-from finished
$ elmo train text.txt --init-from finished --output newer --steps 2
Wrote the model to newer.
! elmo train text.txt --init-from model --output done --steps 2 --dropout 0.5
dropout 0.1 (now 0.5). Repeat its command to resume it, or choose another folder
$ elmo train text.txt --init-from model --output done --steps 2 --keep-checkpoint
Wrote the model to done.
$ elmo train text.txt --init-from done --output newer --steps 2 --dropout 0.5
Wrote the model to newer.
"""
"""Commands, each with a part of what it prints. `!` begins a case: a command whose message has a
remedy. `$` is a remedy of it. The last one of a case succeeds."""


_OPTIONS = "--options-file model/options.json --output new --steps 1"


def cases() -> list[str]:
    """Return the cases: lines of commands and of parts of what they print, in turn."""
    lines = [line for line in REMEDIES.splitlines() if line and not line.startswith("# ")]
    return "\n".join(lines).removeprefix("! ").split("\n! ")


def run(command: str) -> tuple[int, str]:
    """Run a command, after programs of a shell if it has some; return its status and output."""
    programs, _, arguments = f" {command}".rpartition(" elmo ")
    content = None
    if programs.strip():
        shell = shutil.which("bash") or pytest.skip("needs bash")
        done = subprocess.run([shell, "-c", programs.rstrip(" |;")], capture_output=True)
        if done.returncode == 127:
            pytest.skip(done.stderr.decode())
        content = done.stdout
    result = elmo(*shlex.split(arguments.replace("$OPTIONS", _OPTIONS)), stdin=content)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all inputs, models and outputs of commands."""
    folder = tmp_path_factory.mktemp("remedies")
    for name, content in FILES.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    (folder / "model").mkdir()
    make_language_model(small_architecture(), 1, folder / "model")
    shutil.copytree(
        folder / "model", folder / "plain", ignore=lambda *_: ["softmax.hdf5", "vocab.txt"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ELMO_MODEL", "model")
        for arguments in (
            "embed text.txt v.h5",
            "embed text.txt pooled.h5 --layers top --pooling mean",
            "embed text.txt old.h5 --tokenizer moses:verbatim",
            "embed text.txt new.h5 --tokenizer moses",
            "usages text.txt u.npz --words words.txt",
            "surprisal text.txt --plot v.h5.svg",
            "train text.txt --init-from model --output finished --steps 1",
            "train text.txt --init-from model --output done --steps 1 --keep-checkpoint",
        ):
            assert elmo(*arguments.split()).exit_code == 0
    shutil.copy(folder / "model/softmax.hdf5", folder)
    shutil.copy(folder / "model/vocab.txt", folder / "vocabulary")
    (folder / "weights.hdf5.gz").write_bytes(
        gzip.compress((folder / "model/weights.hdf5").read_bytes())
    )
    for name in ("copy.h5", "bare.h5", "gone.h5"):
        shutil.copy(folder / "v.h5", folder / name)
    with h5py.File(folder / "bare.h5", "r+") as bare, h5py.File(folder / "gone.h5", "r+") as gone:
        gone.attrs["model"] = "gone/model"
        for name in list(bare.attrs):
            del bare.attrs[name]
    return folder


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.partition("\n")[0][5:60])
def test_the_remedy_of_a_message_works(
    case: str, prepared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    monkeypatch.setenv("ELMO_MODEL", "model")
    lines = [line.removeprefix("$ ") for line in case.split("\n")]
    for command, expected in zip(lines[::2], lines[1::2], strict=True):
        status, output = run(command)
        assert expected in output, f"{command}\n{output}"
    assert status == 0, output
