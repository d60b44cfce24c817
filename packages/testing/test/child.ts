process.stdin.once('data', (text) => process.stdout.write(`read ${String(text)}`));
process.send?.(process.argv[2]);
