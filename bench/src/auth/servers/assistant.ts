import { start } from '@oselya/assistant';
import { serve } from '../../process/server.ts';

export type AssistantSettings = { databaseUrl: string; env: Record<string, string> };

serve(async ({ databaseUrl, env }: AssistantSettings) => {
  const { url } = await start({
    ...env,
    DATABASE_URL: databaseUrl,
    ASSISTANT_PORT: '0',
    LOG_LEVEL: 'silent',
  });
  return url;
});
