import { offlineDatabase } from '@oselya/db';
import { createLogger, type Server } from '@oselya/kit';
import { createApp } from '../app.ts';
import { readConfig } from '../config.ts';
import type { Tables } from '../tables.ts';
import { createServices, openInlineJobs } from '../services.ts';

/** The OpenAPI document, made without a database, without listening and without any of the environment. */
export async function openapi(): Promise<object> {
  return describe((app) => Promise.resolve(app.swagger()));
}

/** What `GET /metrics` answers of a process to which nothing has happened yet, likewise. */
export async function metrics(): Promise<string> {
  return describe(async (app) => (await app.inject('/metrics')).body);
}

async function describe<Result>(look: (app: Server) => Promise<Result>): Promise<Result> {
  await using opened = new AsyncDisposableStack();
  const config = readConfig({});
  const services = await createServices(config, {
    database: offlineDatabase<Tables>(),
    log: createLogger({ level: 'silent', service: 'collector' }),
  });
  opened.defer(services.close);
  const jobs = openInlineJobs(config, services);
  opened.defer(() => jobs.close({ timeoutMs: 0 }));
  const app = await createApp(config, services, jobs);
  opened.defer(async () => app.close());
  await app.ready();
  return look(app);
}
