import './styles.ts';
import { MantineProvider } from '@mantine/core';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { RequestError } from './api.ts';
import { LanguageProvider } from './i18n/language.tsx';
import { router } from './router.tsx';
import { showProblem } from './shell/problems.ts';
import { endSession, followSession, isSignedOut, userQuery } from './start/session.ts';
import { settingsQuery } from './start/settings.ts';
import { theme } from './theme.ts';

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
// Overlays add style elements of their own.
setNonce(nonce);

const MAX_RETRIES = 2;

const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: endIfSignedOut }),
  mutationCache: new MutationCache({
    onError: (error, _variables, _result, mutation) => {
      endIfSignedOut(error);
      if (!isSignedOut(error) && mutation.meta?.['isHandled'] !== true) showProblem(error);
    },
  }),
  defaultOptions: {
    queries: {
      // An error response is final until its cause is gone; only an unreachable server may be back at once.
      retry: (failures, error) => !(error instanceof RequestError) && failures < MAX_RETRIES,
      staleTime: 10_000,
    },
  },
});

function endIfSignedOut(error: unknown): void {
  if (isSignedOut(error)) endSession(queryClient);
}

followSession(queryClient);
// Both are needed before any page, and need not wait for the texts.
void queryClient.prefetchQuery(userQuery);
void queryClient.prefetchQuery(settingsQuery);

const root = document.querySelector('#root');
if (root === null) throw new Error('The page has no #root');
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <QueryClientProvider client={queryClient}>
        <LanguageProvider>
          <RouterProvider router={router} />
        </LanguageProvider>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
