# Saves standard input as a post: sh post.sh TITLE < TEXT
. ./slug.sh

file=$(slug "$1").txt
cat > "$file"
echo "saved $file"
