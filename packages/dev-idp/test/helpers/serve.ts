// A provider in a process of its own: node serve.ts ISSUER STORE_FILE. It prints `ready` when it
// listens, and whatever the libraries print besides.
import { createDevIdp } from '../../src/index.ts';
import { client } from './client.ts';

const [, , issuer = '', storeFile = ''] = process.argv;
const idp = await createDevIdp({ issuer, client, storeFile });
await idp.app.listen({ host: '127.0.0.1', port: Number(new URL(issuer).port) });
process.stdout.write('ready\n');
