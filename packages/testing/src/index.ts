export { Browser, getRedirectTarget, type Page } from './browser.ts';
export { deferCleanup, getRepetitions, until } from './flow.ts';
export { openFolder } from './folder.ts';
export {
  exchange,
  findFreePort,
  listen,
  countOpenDescriptors,
  openSocket,
  findUnusedUrl,
} from './network.ts';
export { startProcess, runProcess } from './process.ts';
export { type Proxy, startProxy } from './proxy.ts';
export { type ScriptedResponse, type ReceivedRequest, startServer } from './server.ts';
