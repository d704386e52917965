# One static binary and nothing else. The build context is a folder that holds
# the binary under the name "program".
FROM scratch
COPY program /program
ENTRYPOINT ["/program"]
