import { createOfflineDatabase } from '@oselya/db';
import { createLogger, type Server } from '@oselya/kit';
import { createApp } from '../app.ts';
import { readConfig } from '../config.ts';
import type { Tables } from '../tables.ts';
import { createServices, openInlineJobs } from '../services.ts';

/** Returns the OpenAPI document. Needs neither a database nor a port. */
export async function openapi(): Promise<object> {
  return runWithApp((app) => Promise.resolve(app.swagger()));
}

/** Returns the metrics of an idle process, in the format of `GET /metrics`. */
export async function metrics(): Promise<string> {
  return runWithApp(async (app) => (await app.inject('/metrics')).body);
}

async function runWithApp<Result>(work: (app: Server) => Promise<Result>): Promise<Result> {
  await using resources = new AsyncDisposableStack();
  const config = readConfig({});
  const services = await createServices(config, {
    database: createOfflineDatabase<Tables>(),
    log: createLogger({ level: 'silent', service: 'collector' }),
  });
  resources.defer(services.close);
  const jobs = openInlineJobs(config, services);
  resources.defer(() => jobs.close({ timeoutMs: 0 }));
  const app = await createApp(config, services, jobs);
  resources.defer(async () => app.close());
  await app.ready();
  return work(app);
}
