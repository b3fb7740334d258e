"""What Django's templates of the console may use besides Django's own."""
