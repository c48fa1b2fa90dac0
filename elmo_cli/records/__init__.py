"""Records of an input: its format, its rows, their ids, and warnings about them.

These are the calls for a table, each below its caller. A stream of records is lazy:
whoever takes a record pulls it through all of them.

    open_input                  open_input.py      format and tokenizer, decided once
      find_format               formats.py
      read_first_texts          first_texts.py     the texts that show a tokenizer
    open_records                open_records.py
      survey_ids                ids.py             first pass, if ids have to be known
      Delimited.read            input_format.py    or another class with a format
        Delimited.parse         delimited.py       lines -> rows
          record_of_row         input_rows.py      row -> record
            record_of_text      record_of_text.py  text -> tokens
      group_words               words.py           rows that are words -> records
      check_records             open_records.py
        IdChecker.check         ids.py
        InputReport.see         warnings/          what the text should look like
"""
