import fastify from 'fastify';
import pg from 'pg';
import { createUser } from '../users.ts';
import { serve } from '../../process/server.ts';
import { POOL_SIZE } from './settings.ts';

export type ConstantSettings = { databaseUrl: string; users: number };

// The minimum of a signed-in request: one query by a primary key.
serve(async ({ databaseUrl, users }: ConstantSettings) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });
  await pool.query('create table users (id text primary key)');
  for (let index = 0; index < users; index += 1) {
    await pool.query('insert into users (id) values ($1)', [createUser(index).id]);
  }
  const constant = { ...createUser(0), role: 'user', permissions: ['svc.sessions.read_own'] };
  const app = fastify({ logger: false });
  app.get<{ Params: { id: string } }>('/users/:id', async ({ params }) => {
    await pool.query('select id from users where id = $1', [params.id]);
    return constant;
  });
  return app.listen({ host: '127.0.0.1', port: 0 });
});
