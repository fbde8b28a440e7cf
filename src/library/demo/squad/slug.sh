# Names for files, made from titles.

# slug TITLE prints the title in lower case, with one hyphen for whatever cannot stand in a name.
slug() {
    echo "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z' '-'
}
