export { Browser, locationOf, type Page } from './browser.ts';
export { atEnd, until } from './flow.ts';
export { exchange, freePort, listen, openDescriptors, openSocket, unusedUrl } from './network.ts';
export { startProcess, runProcess, type RunningProcess } from './process.ts';
export { type Proxy, startProxy } from './proxy.ts';
export { type Answer, type ReceivedRequest, startServer, type TestServer } from './server.ts';
