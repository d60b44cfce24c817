import { Alert, Button, Stack, Text } from '@mantine/core';
import { useEffect, useState } from 'react';
import { RequestError } from '../api.ts';
import { useMessages } from '../i18n/language.tsx';

/** Shows an error with its code and request, and a button that waits as long as the server asked. */
export function ProblemNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const messages = useMessages().error;
  const isResponse = error instanceof RequestError;
  const waitSeconds = useCountdown(isResponse ? (error.retryAfter ?? 0) : 0);
  return (
    <Alert color="red" role="alert" title={isResponse ? error.problem.title : messages.title}>
      <Stack gap="xs" align="start">
        <Text size="sm">{isResponse ? error.message : messages.network}</Text>
        {isResponse && error.problem.request_id !== undefined && (
          <Text size="xs" c="dimmed">
            {error.problem.code} · {messages.request(error.problem.request_id)}
          </Text>
        )}
        {onRetry && (
          <Button size="xs" variant="light" disabled={waitSeconds > 0} onClick={onRetry}>
            {waitSeconds > 0 ? messages.retryIn(waitSeconds) : messages.retry}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

function useCountdown(seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const endsAt = performance.now() + seconds * 1000;
    const timer = setInterval(() => {
      const rest = Math.max(0, Math.ceil((endsAt - performance.now()) / 1000));
      setLeft(rest);
      if (rest === 0) clearInterval(timer);
    }, 250);
    return () => clearInterval(timer);
  }, [seconds]);
  return left;
}
