# Sourced by the delegates of the worked example: writes the environment and the
# stdin of this call to $RECORD/<n>-<delegate>-<command>.{env,stdin}, where n
# counts the calls.

n=$(ls "$RECORD" | grep -c '\.env$' || true)
call="$RECORD/$((n + 1))-${0##*/}-$CNI_COMMAND"
env | grep '^CNI_' | LC_ALL=C sort > "$call.env"
cat > "$call.stdin"
