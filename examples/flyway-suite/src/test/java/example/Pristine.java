package example;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The test begins with the database as the migrations left it, whatever earlier tests committed. */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@interface Pristine {}
