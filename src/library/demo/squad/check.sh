# Checks slug.sh and post.sh; exits 0 when everything holds, else 1. Run it here: sh check.sh
. ./slug.sh

count=0
failed=0

# is WANTED COMMAND... compares what the command prints with what is wanted.
is() {
    wanted=$1
    shift
    got=$("$@" 2>/dev/null)
    count=$((count + 1))
    if [ "$got" = "$wanted" ]; then
        echo "ok   $* is $wanted"
    else
        echo "FAIL $* should be $wanted but is ${got:-empty}"
        failed=$((failed + 1))
    fi
}

is hello-world slug "Hello, World!"
is part-1 slug "Part 1"
is part-2 slug "Part 2"
is a-b slug "--a  b--"
is untitled slug "???"

echo "$failed of $count failed"
[ "$failed" -eq 0 ]
