# Times of day, written HH:MM.

# minutes_of HH:MM prints the minutes since midnight.
minutes_of() {
    hours=${1%%:*}
    minutes=${1##*:}
    echo $((hours * 60 + minutes))
}

# minutes_between FROM TO prints how long it is from FROM to TO; TO may be on the next day.
minutes_between() {
    from=$(minutes_of "$1") || return 1
    to=$(minutes_of "$2") || return 1
    echo $(((to - from + 1440) % 1440))
}
