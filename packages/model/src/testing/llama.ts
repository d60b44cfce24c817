/** A real model server, for `npm run test:llama`. */
export { type LlamaServer, startLlamaServer } from './llama-server.ts';
export { WIDTH } from './random-model.ts';
