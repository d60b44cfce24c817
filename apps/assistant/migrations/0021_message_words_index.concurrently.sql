create index concurrently if not exists conversation_messages_words
  on conversation_messages using gin (text_words(content));
