import { Type } from 'typebox';
import { text } from './fields.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** What every process reads. Contract 1. */
export const commonConfig = {
  DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://', writeOnly: true })),
  DATA_DIR: text('var'),
  LOG_LEVEL: Type.Union(
    LEVELS.map((level) => Type.Literal(level)),
    { default: 'info' },
  ),
};
