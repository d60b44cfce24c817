import { Button, Center, Stack, Text, Title } from '@mantine/core';
import { useLanguage } from '../i18n/language.tsx';
import { Logo } from '../shell/logo.tsx';

/** Page of a visitor who is not signed in. */
export function SignIn({ hasEnded }: { hasEnded: boolean }) {
  const { messages } = useLanguage();
  const { title, text, button, ended } = messages.signIn;
  return (
    <Center component="main" mih="100dvh" p="md">
      <Stack align="center" gap="lg" maw={420} ta="center">
        <Logo size={64} />
        <Title order={1}>{title}</Title>
        <Text role={hasEnded ? 'status' : undefined}>{hasEnded ? ended : text}</Text>
        <Button component="a" href="/auth/login" size="md">
          {button}
        </Button>
      </Stack>
    </Center>
  );
}
