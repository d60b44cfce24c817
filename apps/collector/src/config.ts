import {
  commonConfig,
  type ConfigRule,
  flag,
  httpUrl,
  integer,
  isLoopback,
  loadConfig,
  modelConfig,
  secret,
  text,
} from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { isValidAllowEntry } from './safe-fetch/check-url.ts';
import { choice } from './schemas.ts';

/** Maximum number of dimensions of a pgvector index. */
const MAX_DIMENSIONS = 2000;

/** Schema of the collector's variables. Contract 1. */
export const configSchema = Type.Object({
  ...commonConfig,
  COLLECTOR_HOST: text('127.0.0.1'),
  COLLECTOR_PORT: integer({ default: 8001, max: 65_535 }),
  COLLECTOR_AUTH: Type.Optional(choice(['required', 'off'])),
  COLLECTOR_WORKER: flag(true),
  COLLECTOR_WORKERS: integer({ default: 4, min: 1, max: 64 }),
  COLLECTOR_WORKER_HOST: text('127.0.0.1'),
  COLLECTOR_WORKER_PORT: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
  COLLECTOR_UPLOADS: integer({ default: 4, min: 1, max: 64 }),
  COLLECTOR_INGEST_PER_MINUTE: integer({ default: 60 }),
  COLLECTOR_NEW_SOURCES_PER_DAY: integer({ default: 10_000 }),
  COLLECTOR_FULLTEXT_PER_MINUTE: integer({ default: 120 }),
  COLLECTOR_LEASE_SECONDS: integer({ default: 60, min: 1, max: 3600 }),
  COLLECTOR_MAX_ATTEMPTS: integer({ default: 3, min: 1, max: 100 }),
  COLLECTOR_SHUTDOWN_SECONDS: integer({ default: 60, min: 1, max: 3600 }),
  COLLECTOR_ARCHIVE_CHECK_HOURS: integer({ default: 0, max: 8760 }),
  COLLECTOR_RAW_RETENTION_DAYS: integer({ default: 0, max: 36_500 }),
  COLLECTOR_IMAGE_RETENTION_DAYS: integer({ default: 0, max: 36_500 }),
  ...modelConfig,
  MODEL_EMBEDDING_BASE_URL: httpUrl(),
  MODEL_EMBEDDING_API_KEY: secret(),
  MODEL_VISION: text(''),
  MODEL_VISION_BASE_URL: httpUrl(),
  MODEL_VISION_API_KEY: secret(),
  MODEL_EMBEDDING: text(''),
  EMBEDDING_DIMENSIONS: integer({ default: 384, min: 1, max: MAX_DIMENSIONS }),
  IMAGE_STORE: choice(['file', 's3'], { default: 'file' }),
  S3_ENDPOINT: httpUrl(),
  S3_REGION: text(''),
  S3_BUCKET: text(''),
  S3_ACCESS_KEY_ID: text(''),
  S3_SECRET_ACCESS_KEY: secret(),
  S3_FORCE_PATH_STYLE: flag(false),
  SSRF_ALLOW: Type.Array(Type.Refine(Type.String(), isValidAllowEntry), {
    default: [],
    description: 'must be CIDR ranges, addresses and hosts, comma separated',
  }),
  MIN_FREE_DISK_MB: integer({ default: 512 }),
});

export type Config = Static<typeof configSchema>;

/** Creates a rule: if `variable` equals `value`, the variables `names` must be set. */
function requireVariables(
  variable: keyof Config,
  value: string,
  names: readonly (keyof Config)[],
): ConfigRule<typeof configSchema> {
  return (values) =>
    values[variable] === value
      ? names
          .filter((name) => !values[name])
          .map((name) => [name, `is not set: ${variable}=${value} needs it`])
      : [];
}

const AUTH_MISSING_MESSAGE =
  'is not set: on a host that other machines can reach, set it to "required" (API keys) or "off" (open to all)';

const requireAuthChoice: ConfigRule<typeof configSchema> = ({ COLLECTOR_HOST, COLLECTOR_AUTH }) =>
  COLLECTOR_HOST !== undefined && COLLECTOR_AUTH === undefined && !isLoopback(COLLECTOR_HOST)
    ? [['COLLECTOR_AUTH', AUTH_MISSING_MESSAGE]]
    : [];

/**
 * Reads the collector's configuration.
 * @param options.servesApi Whether the process serves the API. A process that only runs a worker ignores
 *   COLLECTOR_AUTH.
 * @throws ConfigError with every invalid variable.
 */
export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  options: { servesApi: boolean } = { servesApi: true },
): Config {
  const rules = [
    requireVariables('MODEL_MODE', 'openai', ['MODEL_BASE_URL', 'MODEL_CHAT', 'MODEL_EMBEDDING']),
    // S3_ENDPOINT is optional, because AWS needs no endpoint.
    requireVariables('IMAGE_STORE', 's3', [
      'S3_REGION',
      'S3_BUCKET',
      'S3_ACCESS_KEY_ID',
      'S3_SECRET_ACCESS_KEY',
    ]),
    ...(options.servesApi ? [requireAuthChoice] : []),
  ];
  return loadConfig(configSchema, env, rules);
}
