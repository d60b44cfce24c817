import type { Engine } from './engine.ts';

/** Engines by name, Oselya first. */
export const ENGINES = ['oselya', 'sphinx', 'groonga', 'fts5', 'lancedb'] as const;

/** The name of Oselya among the engines. */
export const OSELYA = 'oselya';

/** Imports an engine. A process that needs one imports no other. */
export async function loadEngine(name: string): Promise<Engine> {
  const { engine } = (await import(`./engines/${name}.ts`)) as { engine: Engine };
  return engine;
}
