"""Recipes of the file system: 18 tools over one's place in a tree of directories.

Facts: `inside` (one went down and may go back up), `sparse` (no directories here), `bare` (hardly any files here).
Things: `file` (here), `box` (a directory here), `filed` (a file in that directory), `first` (of the last listing).
Whatever moves one's place ends them all.
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import file_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.paths import GROUP

RECIPES: Recipes = {}
HERE = "file box filed first"  # what is over when one goes elsewhere


_add = partial(recipe, RECIPES)


# --- going about
_add(
    "fs_enter",
    "cd folder=folder:folder",
    "(go|switch|move) (into|to) the {folder} (folder|directory)",
    "open the {folder} (folder|directory)",
    "make the {folder} (folder|directory) my (working|current) directory",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_back",
    'cd folder=!".."',
    "go (back up|up) one level",
    "step back (out of|from) this (folder|directory)",
    "return to the (parent folder|folder above|parent directory)",
    ends=f"{HERE} inside sparse bare",
    when="inside",
)
_add(
    "fs_where",
    "pwd",
    "tell me (which directory I am in|the full path of the current folder|where in the tree I am)",
    "(show|give) me the path of (this folder|my working directory|the place I am in)",
    unless="placed",
    makes="placed",
)
_add(
    "fs_look",
    "ls",
    "(list|show me) (everything|what is) in this (folder|directory)",
    "tell me what this (folder|directory) holds",
    "give me (an overview|a listing) of the current (folder|directory)",
    gives="first=0.current_directory_content.0/",
)
_add(
    "fs_look_all",
    "ls a=!true",
    "list (everything|all there is) in this (folder|directory), hidden (files|entries) (included|too)",
    "show me the (full|complete) listing of this (folder|directory), (including|with) the hidden files",
)
_add(
    "fs_enter_look",
    "cd folder=folder:folder; ls",
    "(go|switch) (into|to) the {folder} (folder|directory) and (list|show me) what is (there|in it)",
    "open the {folder} (folder|directory) and (tell me what it holds|list its contents)",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="first=1.current_directory_content.0/",
)
_add(
    "fs_enter_where",
    "cd folder=folder:folder; pwd",
    "(go|switch) (into|to) the {folder} (folder|directory) and (confirm|tell me) the (path|full path) (there|I "
    "end up in)",
    ends=HERE,
    unless="sparse",
    makes="inside placed",
)
_add(
    "fs_size",
    "du human_readable=!true",
    "(tell me|check|work out) how much space this (folder|directory) (takes|takes up|uses) in (a readable|an "
    "easily readable) unit",
    "give me the disk usage of this (folder|directory) in (human readable form|a form that people can read)",
)
_add(
    "fs_size_bytes",
    "du",
    "(tell me|check|work out) how many bytes (this folder|this directory|the current folder) (takes|occupies)",
    "give me the raw disk usage of this (folder|directory)",
)
_add(
    "fs_enter_size",
    "cd folder=folder:folder; du human_readable=!true",
    "(go|switch) (into|to) the {folder} (folder|directory) and (tell me|check) how much space it (takes|uses) in "
    "a readable unit",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_find",
    'find path=!"." name=part:part',
    "(find|locate|look for) (everything|all files and folders) from here down (that has|with) '{part}' in (the "
    "name|its name)",
    "search this (folder|directory) and all below it for names (containing|with) '{part}'",
    unless="bare",
)
_add(
    "fs_enter_find",
    'cd folder=folder:folder; find path=!"." name=part:part',
    "(go|switch) (into|to) the {folder} (folder|directory) and (find|locate|look for) everything (there "
    "with|under it with) '{part}' in the name",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
# --- reading
_add(
    "fs_read",
    "cat file_name=file:file",
    "(show|read) me (what is in|the contents of|what I wrote in) {file}",
    "(open|print|display) {file} (for me|so that I can read it|on the screen)",
    gives="file=file:file/file",
)
_add(
    "fs_lines",
    'wc file_name=file:file mode=!"l"',
    "(count|tell me|check) how many lines {file} (has|contains)",
    "give me the number of lines in {file}",
    gives="file=file:file/file",
)
_add(
    "fs_words",
    'wc file_name=file:file mode=!"w"',
    "(count|tell me|check) how many words {file} (has|contains)",
    "give me the word count of {file}",
    gives="file=file:file/file",
)
_add(
    "fs_characters",
    'wc file_name=file:file mode=!"c"',
    "(count|tell me|check) how many characters {file} (has|contains)",
    "give me the (character count|number of characters) of {file}",
    gives="file=file:file/file",
)
_add(
    "fs_sort",
    "sort file_name=text:text_file",
    "(sort|order) the lines of {text} (alphabetically|by the alphabet|from A to Z)",
    "show me the lines of {text} in alphabetical order",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_tail",
    "tail file_name=text:text_file lines=lines:lines",
    "(show|print|give me) the last {lines} lines of {text}",
    "read me the (final|last) {lines} lines of {text}",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_last",
    "tail file_name=text:text_file lines=!1",
    "(show|print|give me) (only the|just the|the very) last line of {text}",
    "read me (how {text} ends, just its last line|the very last line of {text})",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_grep",
    "grep file_name=text:text_file pattern=pattern:pattern",
    "(find|show me|pick out) the lines (of|in) {text} that (mention|contain) '{pattern}'",
    "search {text} for (lines with|mentions of) '{pattern}'",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_diff",
    "diff file_name1=text:text_file file_name2=other:other_text",
    "compare {text} (and|with) {other} line by line",
    "(show|tell) me (where|how) {text} and {other} differ",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_enter_read",
    "cd folder=folder:folder; cat file_name=file:file",
    "(go|switch) (into|to) the {folder} (folder|directory) and show me (what is in|the contents of) {file}",
    "from the {folder} (folder|directory), (open|display) {file} for me",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=file:file/file",
)
_add(
    "fs_enter_sort",
    "cd folder=folder:folder; sort file_name=text:text_file",
    "(go|switch) (into|to) the {folder} (folder|directory) and (sort|order) the lines of {text} alphabetically",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=text:text_file/text",
)
_add(
    "fs_enter_grep",
    "cd folder=folder:folder; grep file_name=text:text_file pattern=pattern:pattern",
    "in the {folder} (folder|directory), (find|show me|pick out) the lines of {text} that (mention|contain) "
    "'{pattern}'",
    "(go|switch) to the {folder} (folder|directory) and search {text} for '{pattern}'",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=text:text_file/text",
)
_add(
    "fs_enter_tail",
    "cd folder=folder:folder; tail file_name=text:text_file lines=lines:lines",
    "(go|switch) to the {folder} (folder|directory) and (show me|print) the last {lines} lines of {text}",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=text:text_file/text",
)
_add(
    "fs_enter_diff",
    "cd folder=folder:folder; diff file_name1=text:text_file file_name2=other:other_text",
    "in the {folder} (folder|directory), (compare {text} and {other} line by line|tell me how {text} and {other} "
    "differ)",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=text:text_file/text",
)
_add(
    "fs_enter_count",
    'cd folder=folder:folder; wc file_name=file:file mode=!"w"',
    "(go|switch) to the {folder} (folder|directory) and (count the words in {file}|tell me how many words {file} has)",
    ends=HERE,
    unless="sparse",
    makes="inside",
    gives="file=file:file/file",
)
_add(
    "fs_read_sorted",
    "cat file_name=text:text_file; sort file_name=text:text_file",
    "show me {text} as it is and then (with its lines in alphabetical order|sorted line by line)",
    gives="file=text:text_file/text",
    unless="bare",
)
_add(
    "fs_count_all",
    'wc file_name=file:file mode=!"l"; wc file_name=file:file mode=!"w"; wc file_name=file:file mode=!"c"',
    "(give|tell) me the number of lines, words and characters (in|of) {file}",
    "measure {file} for me: its lines, its words and its characters",
    gives="file=file:file/file",
)
# --- reading what is on the table
_add(
    "fs_read_it",
    "cat file_name=^file",
    "(show|read) me what {file} (says|holds)",
    "(open|display) {file} (for me|on the screen)",
)
_add(
    "fs_count_it",
    'wc file_name=^file mode=!"w"',
    "count the words (in|of) {file}",
    "tell me how many words {file} (has|contains)",
)
_add(
    "fs_lines_of_it",
    'wc file_name=^file mode=!"l"',
    "count the lines (in|of) {file}",
    "tell me how many lines {file} (has|contains)",
)
_add(
    "fs_compare_it",
    "diff file_name1=^file file_name2=other:other_file",
    "(compare {file} with {other}|tell me how {file} differs from {other})",
    unless="bare",
)
_add(
    "fs_grep_it",
    "grep file_name=^file pattern=pattern:known_pattern",
    "(find|show me) the lines (of|in) {file} that (mention|contain) '{pattern}'",
)
# --- writing
_add(
    "fs_new_file",
    "touch file_name=file:new_file",
    "(create|start|make) (a new|an empty) file (called|named) {file} (here|in this folder)",
    "set up (a blank|an empty) {file} (here|in this directory)",
    gives="file=file:new_file/file",
)
_add(
    "fs_new_note",
    "touch file_name=file:new_file; echo content=text:text file_name=file:new_file",
    "(create|start) a file (called|named) {file} and (write|put) '{text}' (into it|in it)",
    "(save|write down) '{text}' in a new file (called|named) {file}",
    gives="file=file:new_file/file",
)
_add(
    "fs_overwrite",
    "echo content=text:text file_name=file:file",
    "(replace|overwrite) (everything|whatever is) in {file} with '{text}'",
    "make {file} (say just|contain only) '{text}'",
    gives="file=file:file/file",
)
_add(
    "fs_fill_it",
    "echo content=text:text file_name=^file",
    "(write|put) '{text}' into {file}",
    "make {file} (say|contain) '{text}'",
)
_add(
    "fs_say",
    "echo content=text:text",
    "(print|show) '{text}' (on|in) the terminal",
    "put '{text}' on the terminal without saving it",
)
_add(
    "fs_new_folder",
    "mkdir dir_name=folder:new_folder",
    "(create|make|set up) a (folder|directory) (called|named) {folder} (here|)",
    "add a new (folder|directory) (called|named) {folder}",
    gives="box=folder:new_folder/folder",
    ends="filed",
)
_add(
    "fs_new_corner",
    "mkdir dir_name=folder:new_folder; cd folder=folder:new_folder; touch file_name=file:new_file; echo "
    "content=text:text file_name=file:new_file",
    "make a (folder|directory) (called|named) {folder}, go into it and start a file (called|named) {file} that "
    "says '{text}'",
    gives="file=file:new_file/file",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_enter_note",
    "cd folder=folder:folder; touch file_name=file:new_file; echo content=text:text file_name=file:new_file",
    "in the {folder} (folder|directory), (create|start) a file (called|named) {file} and write '{text}' into it",
    "(go|switch) to the {folder} (folder|directory) and save '{text}' in a new file (called|named) {file}",
    gives="file=file:new_file/file",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_enter_new_file",
    "cd folder=folder:folder; touch file_name=file:new_file",
    "(go|switch) to the {folder} (folder|directory) and (create|start) an empty file (called|named) {file}",
    gives="file=file:new_file/file",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_enter_new_folder",
    "cd folder=folder:folder; mkdir dir_name=inner:new_folder",
    "(inside|in) the {folder} (folder|directory), (create|make|set up) a (folder|subfolder) (called|named) {inner}",
    gives="box=inner:new_folder/inner",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
# --- copying and moving
_add(
    "fs_move",
    "mv source=file:file destination=target:target",
    "(move|transfer) {file} (into|to) the {target} (folder|directory)",
    "put {file} (away|) into the {target} (folder|directory)",
    gives="box=target:target/target filed=file:file/file",
    ends="file first",
    unless="sparse",
)
_add(
    "fs_copy",
    "cp source=file:file destination=target:target",
    "(copy|duplicate) {file} into the {target} (folder|directory)",
    "(place|leave) a copy of {file} in the {target} (folder|directory)",
    gives="box=target:target/target filed=file:file/file file=file:file/file",
    unless="sparse",
)
_add(
    "fs_rename",
    "mv source=file:file destination=name:new_name",
    "rename {file} to {name}",
    "(give {file} the new name {name}|change the name of {file} to {name})",
    gives="file=name:new_name/name",
    ends="first",
)
_add(
    "fs_copy_as",
    "cp source=file:file destination=name:new_name",
    "(make|keep) a copy of {file} (called|named|under the name) {name}",
    "duplicate {file} as {name} in the same (folder|directory)",
    gives="file=name:new_name/name",
)
_add(
    "fs_rename_it",
    "mv source=^file destination=name:new_file",
    "rename {file} to {name}",
    "change the name of {file} to {name}",
    gives="file=name:new_file/name",
    ends="first",
)
_add(
    "fs_move_it",
    "mv source=^file destination=target:target",
    "(move|put) {file} into the {target} (folder|directory)",
    gives="box=target:target/target filed=^file/file",
    ends="file first",
    unless="sparse",
)
_add(
    "fs_copy_it",
    "cp source=^file destination=target:target",
    "(copy|duplicate) {file} into the {target} (folder|directory)",
    gives="box=target:target/target filed=^file/file",
    unless="sparse",
)
_add(
    "fs_file_away",
    "mkdir dir_name=folder:new_folder; mv source=file:file destination=folder:new_folder",
    "(create|make) a (folder|directory) (called|named) {folder} and move {file} (into it|there)",
    "move {file} into a new (folder|directory) (called|named) {folder}",
    gives="box=folder:new_folder/folder filed=file:file/file",
    ends="file first",
)
_add(
    "fs_copy_away",
    "mkdir dir_name=folder:new_folder; cp source=file:file destination=folder:new_folder",
    "(create|make) a (folder|directory) (called|named) {folder} and copy {file} (into it|there)",
    "keep a copy of {file} in a new (folder|directory) (called|named) {folder}",
    gives="box=folder:new_folder/folder filed=file:file/file",
)
_add(
    "fs_copy_two",
    "mkdir dir_name=folder:new_folder; cp source=file:file destination=folder:new_folder; cp "
    "source=other:other_file destination=folder:new_folder",
    "(create|make) a (folder|directory) (called|named) {folder} and copy both {file} and {other} into it",
    gives="box=folder:new_folder/folder filed=file:file/file",
    unless="bare",
)
_add(
    "fs_move_two",
    "mv source=file:file destination=target:target; mv source=other:other_file destination=target:target",
    "(move|put) both {file} and {other} into the {target} (folder|directory)",
    gives="box=target:target/target filed=file:file/file",
    ends="file first",
    unless="sparse bare",
)
_add(
    "fs_backup",
    "cp source=file:file destination=target:target; cd folder=target:target; mv source=file:file "
    "destination=name:new_name",
    "(copy|back up) {file} into the {target} (folder|directory), then go there and (call the copy|rename the "
    "copy to) {name}",
    gives="file=name:new_name/name",
    ends=HERE,
    unless="sparse",
    makes="inside sparse",
)
_add(
    "fs_move_rename",
    "mv source=file:file destination=target:target; cd folder=target:target; mv source=file:file "
    "destination=name:new_name",
    "move {file} into the {target} (folder|directory), then go there and rename it to {name}",
    gives="file=name:new_name/name",
    ends=HERE,
    unless="sparse",
    makes="inside sparse",
)
_add(
    "fs_enter_move",
    "cd folder=folder:folder; mkdir dir_name=inner:new_folder; mv source=file:file destination=inner:new_folder",
    "in the {folder} (folder|directory), (make|create) a subfolder (called|named) {inner} and move {file} into it",
    gives="box=inner:new_folder/inner filed=file:file/file",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_enter_rename",
    "cd folder=folder:folder; mv source=file:file destination=name:new_name",
    "in the {folder} (folder|directory), rename {file} to {name}",
    "(go|switch) to the {folder} (folder|directory) and change the name of {file} to {name}",
    gives="file=name:new_name/name",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
# --- going after what was filed
_add(
    "fs_open_box",
    "cd folder=^box; ls",
    "open {box} and list what is (in it now|there)",
    "go to {box} and show me what it holds (now|)",
    ends=HERE,
    when="filed",
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_read_filed",
    "cd folder=^box; cat file_name=^filed",
    "go to {box} and show me what {filed} says",
    "open {box} and (display|print) {filed}",
    gives="file=^filed/filed",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_rename_filed",
    "cd folder=^box; mv source=^filed destination=name:new_file",
    "go to {box} and rename {filed} to {name}",
    "open {box} and change the name of {filed} to {name}",
    gives="file=name:new_file/name",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_sort_filed",
    "cd folder=^box; sort file_name=^filed",
    "go to {box} and (sort|order) the lines of {filed} alphabetically",
    gives="file=^filed/filed",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_count_filed",
    'cd folder=^box; wc file_name=^filed mode=!"l"',
    "go to {box} and (count the lines of {filed}|tell me how many lines {filed} has)",
    gives="file=^filed/filed",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
)
_add(
    "fs_move_into_box",
    "mv source=file:file destination=^box",
    "(move|put) {file} into {box} (too|as well)",
    gives="filed=file:file/file",
    ends="file first",
)
_add(
    "fs_copy_into_box",
    "cp source=file:file destination=^box",
    "(copy|duplicate) {file} into {box} (too|as well)",
    gives="filed=file:file/file",
)
# --- removing
_add(
    "fs_remove",
    "rm file_name=file:file",
    "(delete|remove) {file} (here|for good|)",
    "get rid of {file}",
    ends="file first",
)
_add(
    "fs_remove_folder",
    "rm file_name=leaf:leaf",
    "(delete|remove) the {leaf} (folder|directory) (with everything in it|and all it holds)",
    ends="box filed",
    unless="sparse",
)
_add(
    "fs_remove_empty",
    "rmdir dir_name=empty:empty_folder",
    "(delete|remove) the (empty|unused) {empty} (folder|directory)",
    "get rid of the {empty} (folder|directory), which is empty",
    ends="box filed",
    unless="sparse",
    short=True,
)
_add(
    "fs_remove_it",
    "rm file_name=^file",
    "(delete|remove) {file} (for good|)",
    "get rid of {file}",
    "clear {file} away, I no longer need it",
    "wipe {file} off the disk",
    ends="file first",
)
_add(
    "fs_enter_remove",
    "cd folder=folder:folder; rm file_name=file:file",
    "(go|switch) to the {folder} (folder|directory) and (delete|remove) {file} (there|)",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
# --- what a result brings
_add("fs_read_first", "cat file_name=^first", "(open|show me) {first}", "read {first} to me")
_add("fs_sort_first", "sort file_name=^first", "(sort|order) the lines of {first} alphabetically")
_add(
    "fs_count_first",
    'wc file_name=^first mode=!"w"',
    "count the words in {first}",
    "tell me how many words {first} has",
)
_add(
    "fs_copy_first",
    "cp source=^first destination=target:target",
    "(copy|duplicate) {first} into the {target} (folder|directory)",
    unless="sparse",
)
_add(
    "fs_look_read",
    "ls; cat file_name=0.current_directory_content.0",
    "list this (folder|directory) and show me (what is in|the contents of) the first (file|entry) of the listing",
    "look at what is here and (open|display) whatever file comes first",
)
_add(
    "fs_look_tail",
    "ls; tail file_name=0.current_directory_content.0 lines=!1",
    "list this (folder|directory) and give me just the last line of the first file (listed|you see)",
)
_add(
    "fs_look_rename",
    "ls; mv source=0.current_directory_content.0 destination=name:new_file",
    "list this (folder|directory) and rename the first file (listed|you see) to {name}",
    ends="file first",
)
_add(
    "fs_enter_look_read",
    "cd folder=folder:folder; ls; cat file_name=1.current_directory_content.0",
    "(go|switch) to the {folder} (folder|directory), list it and show me what the first file (there|of the "
    "listing) says",
    ends=HERE,
    unless="sparse",
    makes="inside",
)
_add(
    "fs_lone_read",
    "cd folder=lone:lone_folder; ls; cat file_name=1.current_directory_content.0",
    "there is a single file in the {lone} (folder|directory): go there, list it and show me what (it|that file) says",
    ends=HERE,
    unless="sparse",
    makes="inside sparse bare",
    short=True,
)
_add(
    "fs_note_path",
    "pwd; echo content=0.current_working_directory file_name=file:file",
    "(replace|overwrite) the text of {file} with the full path of (this folder|the current directory)",
)
_add(
    "fs_new_path",
    "pwd; touch file_name=file:new_file; echo content=0.current_working_directory file_name=file:new_file",
    "(write|save) the full path of (this folder|the current directory) in a new file (called|named) {file}",
    gives="file=file:new_file/file",
)
_add(
    "fs_clone_text",
    "cat file_name=brief:brief; echo content=0.file_content file_name=other:other_file",
    "(read|look at) {brief} and (overwrite|replace) the text of {other} with what it says",
    "make {other} say exactly what {brief} says",
    gives="file=other:other_file/other",
    unless="bare",
    short=True,
)
_add(
    "fs_save_text",
    "cat file_name=brief:brief; touch file_name=name:new_file; echo content=0.file_content file_name=name:new_file",
    "(read|look at) {brief} and write the same text into a new file (called|named) {name}",
    gives="file=name:new_file/name",
    unless="bare",
    short=True,
)
_add(
    "fs_save_match",
    "grep file_name=text:text_file pattern=pattern:lone_pattern; touch file_name=name:new_file; echo "
    "content=0.matching_lines.0 file_name=name:new_file",
    "(find|look up) the line of {text} that mentions '{pattern}' and save it in a new file (called|named) {name}",
    gives="file=name:new_file/name",
    unless="bare",
    short=True,
)
_add(
    "fs_put_match",
    "grep file_name=text:text_file pattern=pattern:lone_pattern; echo content=0.matching_lines.0 "
    "file_name=other:other_file",
    "(find|look up) the line of {text} that mentions '{pattern}' and make it the only text of {other}",
    gives="file=other:other_file/other",
    unless="bare",
    short=True,
)
_add(
    "fs_save_last",
    "tail file_name=text:text_file lines=!1; touch file_name=name:new_file; echo content=0.last_lines "
    "file_name=name:new_file",
    "(take|copy) the last line of {text} into a new file (called|named) {name}",
    gives="file=name:new_file/name",
    unless="bare",
    short=True,
)
_add(
    "fs_put_last",
    "tail file_name=text:text_file lines=!1; echo content=0.last_lines file_name=other:other_file",
    "(overwrite|replace) the text of {other} with the last line of {text}",
    gives="file=other:other_file/other",
    unless="bare",
    short=True,
)

PART = Part(
    GROUP,
    RECIPES,
    domains=file_worlds.DOMAINS,
    make=file_worlds.make,
    pad=file_worlds.pad,
    things={
        "file": Words(("{noun}",), ("that file", "the file")),
        "box": Words(("{noun}", "the folder {noun}"), ("that folder", "the folder")),
        "filed": Words(("{noun}",), ("that file",)),
        "first": Words(
            ("the first file of that listing", "the file that comes first in it"), ("the first file of that list",)
        ),
    },
    vague={
        "file": ("one of my files", "one of the files"),
        "folder": ("other", "usual", "right"),
        "name": ("something fitting", "something suitable"),
        "lines": ("few",),
        "text": ("something", "a short note"),
        "pattern": ("a certain word", "something"),
    },
    supply={
        "file": ("I mean {value}.", "The file is {value}.", "It is {value} that I mean."),
        "folder": ("I mean {value}.", "The one called {value}.", "That would be {value}."),
        "name": ("Call it {value}.", "The name should be {value}.", "Let us use {value}."),
        "lines": ("Make that {value}.", "I mean {value} of them."),
        "text": ("It should say '{value}'.", "The text is '{value}'.", "Take '{value}'."),
        "pattern": ("The word is '{value}'.", "I mean '{value}'."),
    },
    again={"file": ("the same file", "that same file")},
    families={
        "file": "text_file brief other_file other_text",
        "folder": "target leaf lone_folder empty_folder",
        "name": "new_file new_name new_folder",
        "pattern": "known_pattern lone_pattern",
    },
    siblings=(("cp", "mv"), ("cat", "tail"), ("find", "ls"), ("rm", "rmdir"), ("mkdir", "touch"), ("grep", "find")),
    swaps={"mv": ("source", "destination"), "cp": ("source", "destination"), "diff": ("file_name1", "file_name2")},
    common="cd",
)
