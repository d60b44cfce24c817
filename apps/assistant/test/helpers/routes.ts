import type { Server } from '@oselya/kit';

/** A line of the tree: how deep it stands, its part of the path, and the methods served there. */
const LINE = /^((?:[│ ] {3})*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?$/;

/** Every route that a server has, as in `GET /auth/me`, read from the router's own tree. */
export function registeredRoutes(app: Server): string[] {
  const routes: string[] = [];
  const above: string[] = [];
  for (const line of app.printRoutes({ commonPrefix: false }).trimEnd().split('\n')) {
    const match = LINE.exec(line);
    if (match === null) throw new Error(`The router prints its routes in another way: ${line}`);
    const [, indent = '', part = '', methods = ''] = match;
    const depth = indent.length / 4;
    above.length = depth;
    above.push(part);
    const path = above.join('');
    for (const method of methods.split(', ')) if (method !== '') routes.push(`${method} ${path}`);
  }
  return routes;
}
