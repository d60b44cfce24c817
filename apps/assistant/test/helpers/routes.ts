import type { Server } from '@oselya/kit';

/** A line of the router's tree: its indent, its part of the path, and its methods. */
const LINE = /^((?:[│ ] {3})*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?$/;

/** Returns all routes of a server, such as `GET /auth/me`, from the tree that its router prints. */
export function registeredRoutes(app: Server): string[] {
  const routes: string[] = [];
  const parents: string[] = [];
  for (const line of app.printRoutes({ commonPrefix: false }).trimEnd().split('\n')) {
    const match = LINE.exec(line);
    if (match === null) throw new Error(`Unknown line of the router: ${line}`);
    const [, indent = '', part = '', methods = ''] = match;
    const depth = indent.length / 4;
    parents.length = depth;
    parents.push(part);
    const path = parents.join('');
    for (const method of methods.split(', ')) if (method !== '') routes.push(`${method} ${path}`);
  }
  return routes;
}
