# Says how long a shift is: sh shift.sh 07:30 16:00
. ./clock.sh

length=$(minutes_between "$1" "$2") || exit 1
echo "$1 to $2 is $((length / 60)) h $((length % 60)) min"
