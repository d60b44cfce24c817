import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import type { FastifyServerOptions } from 'fastify';
import { late } from './late.ts';
import { createValidatorCompiler } from './validator.ts';

type CompilersFactory = NonNullable<
  NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']
>;

/**
 * What compiles the schemas of a server's requests and answers. Fastify asks for compilers anew for each scope
 * that adds schemas, and for every answer of every route, most of which read the same. So what reads the same is compiled
 * once in a process, when a request or an answer is the first to need it. Schemas come from the code alone, which bounds
 * what is kept.
 */
export const compilersFactory = {
  buildValidator: pooled(createValidatorCompiler),
  buildSerializer: pooled(createSerializerCompiler),
  // Fastify's types describe another shape than what it calls.
} as unknown as CompilersFactory;

function createSerializerCompiler(...scope: Parameters<ReturnType<typeof SerializerSelector>>) {
  const compile = late(() => SerializerSelector()(...scope));
  return (part: Parameters<ReturnType<typeof compile>>[0]) => {
    const serialize = late(() => compile()(part));
    return (value: unknown) => serialize()(value);
  };
}

/** A builder of compilers that compiles each schema once for each set of shared schemas and each part of a request. */
function pooled<Shared, Options, Part extends { schema?: unknown; httpPart?: unknown }, Compiled>(
  build: (shared: Shared, options: Options) => (part: Part) => Compiled,
): typeof build {
  const compilers = new Map<string, (part: Part) => Compiled>();
  return (shared, options) =>
    kept(compilers, JSON.stringify([shared, options]), () => {
      const compile = build(shared, options);
      const compiled = new Map<string, Compiled>();
      return (part) =>
        kept(compiled, JSON.stringify([part.httpPart, part.schema]), () => compile(part));
    });
}

function kept<T>(values: Map<string, T>, key: string, make: () => T): T {
  const before = values.get(key);
  if (before !== undefined) return before;
  const value = make();
  values.set(key, value);
  return value;
}
