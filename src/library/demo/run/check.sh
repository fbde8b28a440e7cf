# Checks clock.sh; exits 0 when everything holds, else 1. Run it here: sh check.sh
. ./clock.sh

count=0
failed=0

# is WANTED COMMAND... compares what the command prints with what is wanted.
is() {
    wanted=$1
    shift
    got=$("$@" 2>/dev/null) || got=an-error
    count=$((count + 1))
    if [ "$got" = "$wanted" ]; then
        echo "ok   $* is $wanted"
    else
        echo "FAIL $* should be $wanted but is $got"
        failed=$((failed + 1))
    fi
}

is 0 minutes_of 00:00
is 450 minutes_of 07:30
is 510 minutes_of 08:30
is 789 minutes_of 13:09
is 510 minutes_between 07:30 16:00
is 480 minutes_between 22:00 06:00
is 71 minutes_between 07:58 09:09

echo "$failed of $count failed"
[ "$failed" -eq 0 ]
