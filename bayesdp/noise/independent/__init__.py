"""Laws of independent noise of each answer, on the integers and on the real line, around any location."""
